// SPDX-License-Identifier: Apache-2.0
// berth: the CNI IPAM plugin that the runtime executes. It is static and small, because the runtime starts it twice for
// every pod. It sends the call to the node agent and prints the answer (docs/agent-protocol.md).
#include <array>
#include <string_view>
#include <utility>

#include "base/version.h"
#include "cni-plugin/agent_call.h"
#include "cni-plugin/caller.h"
#include "cni-plugin/deadline.h"
#include "cni-plugin/plugin.h"

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): the standard declares it so
  const std::int64_t started_nanos = berth::cni_plugin::BootNanosNow();
  const berth::cni_plugin::Caller caller;
  constexpr std::array<std::string_view, 3> kPaths = {"resolvConf", "stateDir", "agentSocket"};
  const berth::cni_plugin::Program program{.name = "berth", .version = berth::kVersionAndCommit, .paths = kPaths};
  return berth::cni_plugin::RunPlugin(
      program, {argv, static_cast<std::size_t>(argc)}, [&](berth::cni_plugin::PluginCall call) {
        return berth::cni_plugin::AgentCall(std::move(call), caller, started_nanos).Serve();
      });
}
