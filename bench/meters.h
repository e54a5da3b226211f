// SPDX-License-Identifier: Apache-2.0
// Meters: what is read before and after operations, to know what they cost others.
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

// Runs, and completes what that gives: requests of programs whose User-Agent begins with `user_agent` (empty: none),
// etcd's bytes, CPU time of the API server, and what `node_cpu` gains meanwhile. The meters themselves are read outside
// of what `run` times. Errors: those of the meters.
[[nodiscard]] Expected<OpSamples> Metered(const Meters& meters, std::string_view user_agent,
                                          const std::function<Nanoseconds()>& node_cpu,
                                          const std::function<OpSamples()>& run);

}  // namespace berth::bench
