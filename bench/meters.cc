// SPDX-License-Identifier: Apache-2.0
// Computes differences of counters.
#include "bench/meters.h"

#include "bench/process_figures.h"

namespace berth::bench {

Expected<OpSamples> Metered(const Meters& meters, std::string_view user_agent,
                            const std::function<Nanoseconds()>& node_cpu, const std::function<OpSamples()>& run) {
  const auto log_end = meters.audit.End();
  if (!log_end) return std::unexpected(log_end.error());
  const auto bytes_before = meters.etcd.LogBytes();
  if (!bytes_before) return std::unexpected(bytes_before.error());
  const Nanoseconds server_before = CpuOf(meters.api_server);
  const Nanoseconds node_before = node_cpu();
  OpSamples samples = run();
  samples.node_cpu = node_cpu() - node_before;
  samples.server_cpu = CpuOf(meters.api_server) - server_before;
  const auto bytes_after = meters.etcd.LogBytes();
  if (!bytes_after) return std::unexpected(bytes_after.error());
  samples.etcd_bytes = *bytes_after - *bytes_before;
  if (user_agent.empty()) return samples;
  const auto requests = meters.audit.CountSince(*log_end, user_agent);
  if (!requests) return std::unexpected(requests.error());
  samples.requests = static_cast<double>(*requests);
  return samples;
}

}  // namespace berth::bench
