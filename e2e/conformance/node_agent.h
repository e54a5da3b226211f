// SPDX-License-Identifier: Apache-2.0
// Agents that a test starts for itself: for another node, with other credentials, or behind its proxy.
#pragma once

#include <memory>
#include <string>

#include "e2e/agent_process.h"
#include "e2e/conformance/conformance.h"

namespace berth::conformance {

// Writes a kubeconfig with what an agent on that node has, a token that names the node, and returns its path.
[[nodiscard]] std::string AgentKubeconfig(const std::string& node, const std::string& directory);

// The agent under test, with its files in `directory`: those of another agent that was started there for the same node
// are found again. It may not be ready yet.
[[nodiscard]] std::unique_ptr<e2e::AgentProcess> StartAgent(const std::string& node, const std::string& kubeconfig,
                                                            const std::string& directory);

[[nodiscard]] Call WithSocket(const Call& call, const std::string& path);

// What the agent has logged, for the message of a test that has failed.
[[nodiscard]] std::string LogOf(const e2e::AgentProcess& agent);

}  // namespace berth::conformance
