// SPDX-License-Identifier: Apache-2.0
// Settings: which plugin is tested, where its API server is, and what is expected of it. From the environment.
#pragma once

#include <string>

namespace berth::conformance {

// What berth-direct and the pair of berth and berth-agent promise differently.
enum class Mode : std::uint8_t {
  kDirect,
  kAgent,
};

struct Settings {
  std::string plugin;            // BERTH_PLUGIN
  Mode mode = Mode::kDirect;     // BERTH_MODE: direct, agent
  std::string admin_kubeconfig;  // BERTH_TEST_KUBECONFIG
  std::string nodes_dir;         // BERTH_TEST_NODES: holds n1.kubeconfig to n20.kubeconfig, and the agents' sockets
  std::string scratch_dir;       // BERTH_TEST_SCRATCH: for state, logs and files of tests
  std::string agent;             // BERTH_AGENT: the program, for tests that start one
  int shard = 0;                 // GTEST_SHARD_INDEX: each shard is a node of its own

  // Throws std::runtime_error, naming the variable.
  [[nodiscard]] static const Settings& Get();

  // "n1" for the first shard; `step` nodes further for another node of the same shard.
  [[nodiscard]] std::string NodeName(int step = 0) const;
  [[nodiscard]] std::string NodeKubeconfig(const std::string& node) const {
    return nodes_dir + "/" + node + ".kubeconfig";
  }
  // In agent mode of the agent that runs for the node; in both modes what is kept under /run lies beside it.
  [[nodiscard]] std::string AgentSocket(const std::string& node) const { return nodes_dir + "/" + node + ".sock"; }
  [[nodiscard]] std::string AgentSocket() const { return AgentSocket(NodeName()); }
  // Holds the node's mode.
  [[nodiscard]] std::string StateDir(const std::string& node) const { return scratch_dir + "/state-" + node; }
};

}  // namespace berth::conformance
