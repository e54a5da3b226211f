// SPDX-License-Identifier: Apache-2.0
// NodeTest: gives each test its own node name, agents for this node, and calls of the real berth.
//
// e2e/agent.sh sets environment variables with the programs and the cluster. No controller runs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cni/testing/plugin_process.h"
#include "e2e/agent_process.h"
#include "e2e/test_cluster.h"

namespace berth::e2e {

using cni_testing::PluginCall;
using cni_testing::PluginOutcome;
using cni_testing::PluginProcess;
using cni_testing::RunPlugin;

// Throws std::runtime_error if it is not set.
[[nodiscard]] std::string Setting(const char* name);

// Waits until `condition` is true. False: `limit` has passed.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition,
                              std::chrono::milliseconds limit = std::chrono::minutes(1));

class NodeTest : public testing::Test {
 protected:
  NodeTest();
  void TearDown() override;

  [[nodiscard]] static TestCluster& cluster();
  [[nodiscard]] const std::string& tag() const { return tag_; }
  [[nodiscard]] const std::string& scratch() const { return scratch_; }
  [[nodiscard]] std::string pool() const { return "p-" + tag_; }
  [[nodiscard]] std::string SocketPath(const std::string& name = "agent") const {
    return scratch_ + "/" + name + ".sock";
  }

  // The kubeconfig of an agent of the test's node, with a token that names the node. berth-direct may use it too.
  [[nodiscard]] std::string AgentKubeconfig() const { return scratch_ + "/agent.kubeconfig"; }

  // Starts an agent of the test's node, and does not wait until it is ready. All agents share the node's folders.
  [[nodiscard]] std::unique_ptr<AgentProcess> StartAgent(const std::string& socket_name = "agent",
                                                         const std::string& kubeconfig = "",
                                                         const std::vector<std::string>& more = {}) const;
  // Starts an agent, and waits until it is ready.
  [[nodiscard]] std::unique_ptr<AgentProcess> ReadyAgent(const std::string& socket_name = "agent") const;

  [[nodiscard]] PluginCall CallOf(const std::string& verb, const std::string& id, const std::string& socket,
                                  const nlohmann::json& ipam_patch = nlohmann::json::object()) const;

  // The addresses with entries in the test's pool.
  [[nodiscard]] std::vector<std::string> Allocated() const;

 private:
  std::string tag_;
  std::string scratch_;
};

// The first address of an ADD's result, without its prefix length; empty: there is none.
[[nodiscard]] std::string AddressOf(const PluginOutcome& outcome);
inline constexpr unsigned kTryAgain = 11;  // code of a CNI error: try again later

// The code of a CNI error; 0: the outcome is not a CNI error.
[[nodiscard]] unsigned CodeOf(const PluginOutcome& outcome);

}  // namespace berth::e2e
