// SPDX-License-Identifier: Apache-2.0
// RunPlugin: runs an IPAM plugin as an interface plugin does (CNI SPEC, section 4, "plugin delegation"): a process with
// the call in its environment and the network configuration on stdin, which answers on stdout.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace berth::bench {

struct PluginCall {
  std::string program;                   // a path
  std::vector<std::string> environment;  // "NAME=value", the complete environment
  std::string config;                    // at most 64 KiB, the capacity of a pipe
};

struct PluginAnswer {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::string output = {};
};

// Blocks until the process has ended. Drops the process's stderr. Any thread may call it. Errors: kIo: the process
// could not be started.
[[nodiscard]] Expected<PluginAnswer> RunPlugin(const PluginCall& call);

}  // namespace berth::bench
