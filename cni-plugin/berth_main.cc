// SPDX-License-Identifier: Apache-2.0
// berth: the CNI IPAM plugin that the runtime executes. Static and small, because it is started twice for every pod: it
// hands the call to the node agent and prints the answer (docs/agent-protocol.md).
#include "cni-plugin/agent_call.h"
#include "cni-plugin/caller.h"
#include "cni-plugin/deadline.h"
#include "cni-plugin/plugin.h"

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): so the standard declares it
  const std::int64_t started_nanos = berth::cni_plugin::BootNanosNow();
  const berth::cni_plugin::Caller caller;
  const berth::cni_plugin::Program program{.name = "berth", .version = BERTH_VERSION " (commit " BERTH_COMMIT ")"};
  return berth::cni_plugin::RunPlugin(
      program, {argv, static_cast<std::size_t>(argc)}, [&](const berth::cni_plugin::PluginCall& call) {
        return berth::cni_plugin::AgentCall(call, caller, started_nanos).Serve();
      });
}
