// SPDX-License-Identifier: Apache-2.0
// Meters: what the benchmark reads before and after operations, to know what they cost other processes.
#pragma once

#include <functional>
#include <string_view>
#include <sys/types.h>

#include "bench/audit_log.h"
#include "bench/etcd_metrics.h"
#include "bench/samples.h"

namespace berth::bench {

struct Meters {
  const AuditLog& audit;  // both must outlive this
  const EtcdMetrics& etcd;
  pid_t api_server = 0;  // 0: its CPU time is not known
};

// Calls `run`, and adds to its result: the requests of programs whose User-Agent begins with `user_agent` (empty:
// none), the bytes that etcd wrote, the CPU time of the API server, and the growth of `node_cpu`. Reads the meters
// outside of the time that `run` measures. Errors: those of the meters.
[[nodiscard]] Expected<OpSamples> Metered(const Meters& meters, std::string_view user_agent,
                                          const std::function<Nanoseconds()>& node_cpu,
                                          const std::function<OpSamples()>& run);

}  // namespace berth::bench
