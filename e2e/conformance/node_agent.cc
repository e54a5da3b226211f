// SPDX-License-Identifier: Apache-2.0
// Starts agents, and names their files.
#include "e2e/conformance/node_agent.h"

#include <fstream>
#include <sstream>

#include "e2e/test_cluster.h"

namespace berth::conformance {

std::string AgentKubeconfig(const std::string& node, const std::string& directory) {
  static e2e::TestCluster cluster(Settings::Get().admin_kubeconfig);
  std::string path = directory + "/agent-" + node + ".kubeconfig";
  cluster.WriteAgentKubeconfig(node, path);
  return path;
}

std::unique_ptr<e2e::AgentProcess> StartAgent(const std::string& node, const std::string& kubeconfig,
                                              const std::string& directory) {
  const std::string prefix = directory + "/agent-" + node;
  return std::make_unique<e2e::AgentProcess>(e2e::AgentSettings{.binary = Settings::Get().agent,
                                                                .node = node,
                                                                .kubeconfig = kubeconfig,
                                                                .socket = prefix + ".sock",
                                                                .state_dir = prefix + ".state",
                                                                .log_file = prefix + ".log"});
}

Call WithSocket(const Call& call, const std::string& path) {
  Call changed = call;
  changed.config["ipam"]["agentSocket"] = path;
  return changed;
}

std::string LogOf(const e2e::AgentProcess& agent) {
  std::stringstream text;
  text << std::ifstream(agent.settings().log_file).rdbuf();
  constexpr std::size_t kBytesMax = 8000;
  std::string log = text.str();
  if (log.size() > kBytesMax) log.erase(0, log.size() - kBytesMax);
  return log;
}

}  // namespace berth::conformance
