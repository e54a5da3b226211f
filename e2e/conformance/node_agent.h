// SPDX-License-Identifier: Apache-2.0
// Starts agents for single tests: for another node, with other credentials, or behind a proxy.
#pragma once

#include <memory>
#include <string>

#include "e2e/agent_process.h"
#include "e2e/conformance/conformance.h"

namespace berth::conformance {

// Writes the kubeconfig of an agent on the node, with a token that names the node, and returns its path.
[[nodiscard]] std::string AgentKubeconfig(const std::string& node, const std::string& directory);

// Starts the agent under test, with its files in `directory`. If an earlier agent of the node used the same directory,
// the new agent finds its files. The new agent may not be ready yet.
[[nodiscard]] std::unique_ptr<e2e::AgentProcess> StartAgent(const std::string& node, const std::string& kubeconfig,
                                                            const std::string& directory);

[[nodiscard]] Call WithSocket(const Call& call, const std::string& path);

// The agent's log, for the message of a failed test.
[[nodiscard]] std::string LogOf(const e2e::AgentProcess& agent);

}  // namespace berth::conformance
