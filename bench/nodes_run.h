// SPDX-License-Identifier: Apache-2.0
// RunNodes: a whole cluster's nodes against one API server: as many agents in this process, all adding at the same
// time, beside clients that do nothing but send the same patches.
#pragma once

#include <string>

#include "bench/meters.h"
#include "bench/rounds.h"

namespace berth::bench {

struct NodesOptions {
  int nodes = 1000;
  int addresses = 20'000;  // in each round, the same number on each node
  int rounds = 3;
  std::uint64_t seed = 1;
  std::string kubeconfig;        // of an administrator
  std::string agent_kubeconfig;  // with the rights of berth-agent
  std::string state_dir;
  std::string run_dir;
};

// The report, as text. Errors: what keeps it from being measured; ADDs that fail are part of the report.
[[nodiscard]] Expected<std::string> RunNodes(const NodesOptions& options, const Meters& meters,
                                             const Progress& progress);

}  // namespace berth::bench
