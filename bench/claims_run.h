// SPDX-License-Identifier: Apache-2.0
// RunClaims: many agents that start at the same moment, and each need a block, as after a power cut.
#pragma once

#include <string>
#include <sys/types.h>

#include "bench/rounds.h"

namespace berth::bench {

struct ClaimsOptions {
  int agents = 5000;
  std::string kubeconfig;        // of an administrator
  std::string agent_kubeconfig;  // with the rights of berth-agent
  std::string state_dir;
  std::string run_dir;
  pid_t api_server = 0;  // the process whose CPU time is reported; 0: none
};

// The report as text. Errors: those that prevent the measurement.
[[nodiscard]] Expected<std::string> RunClaims(const ClaimsOptions& options, const Progress& progress);

}  // namespace berth::bench
