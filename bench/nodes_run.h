// SPDX-License-Identifier: Apache-2.0
// RunNodes: measures the agents of a whole cluster with one API server. This process runs one agent per node, and all
// agents get ADDs at the same time. In other turns, clients without an agent send one PATCH for each ADD.
#pragma once

#include <string>

#include "bench/meters.h"
#include "bench/rounds.h"

namespace berth::bench {

struct NodesOptions {
  int nodes = 1000;
  int addresses = 20'000;  // in each round, and the same number on each node
  int rounds = 3;
  std::uint64_t seed = 1;
  std::string kubeconfig;        // of an administrator
  std::string agent_kubeconfig;  // with the rights of berth-agent
  std::string state_dir;
  std::string run_dir;
};

// The report as text. Errors: those that prevent the measurement; failed ADDs are part of the report.
[[nodiscard]] Expected<std::string> RunNodes(const NodesOptions& options, const Meters& meters,
                                             const Progress& progress);

}  // namespace berth::bench
