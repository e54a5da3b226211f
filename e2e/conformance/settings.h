// SPDX-License-Identifier: Apache-2.0
// Settings: the plugin under test, its API server, and its mode, from the environment.
#pragma once

#include <string>

namespace berth::conformance {

// Direct mode (berth-direct) or agent mode (berth and berth-agent): the contract differs between them.
enum class Mode : std::uint8_t {
  kDirect,
  kAgent,
};

struct Settings {
  std::string plugin;            // BERTH_PLUGIN
  Mode mode = Mode::kDirect;     // BERTH_MODE: direct, agent
  std::string admin_kubeconfig;  // BERTH_TEST_KUBECONFIG
  std::string nodes_dir;         // BERTH_TEST_NODES: contains n1.kubeconfig to n20.kubeconfig, and the agents' sockets
  std::string scratch_dir;       // BERTH_TEST_SCRATCH: for state, logs and files of tests
  std::string agent;             // BERTH_AGENT: the program, for tests that start one
  int shard = 0;                 // GTEST_SHARD_INDEX: each shard is a node of its own

  // Throws std::runtime_error, with the variable's name, if a variable is missing or wrong.
  [[nodiscard]] static const Settings& Get();

  // The node of this shard: "n1" for the first shard. With `step`, another node of the same shard.
  [[nodiscard]] std::string NodeName(int step = 0) const;
  [[nodiscard]] std::string NodeKubeconfig(const std::string& node) const {
    return nodes_dir + "/" + node + ".kubeconfig";
  }
  // The socket of the node's agent (agent mode). In both modes, files that belong into /run are beside it.
  [[nodiscard]] std::string AgentSocket(const std::string& node) const { return nodes_dir + "/" + node + ".sock"; }
  [[nodiscard]] std::string AgentSocket() const { return AgentSocket(NodeName()); }
  // Contains the file with the node's mode.
  [[nodiscard]] std::string StateDir(const std::string& node) const { return scratch_dir + "/state-" + node; }
};

}  // namespace berth::conformance
