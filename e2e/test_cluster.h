// SPDX-License-Identifier: Apache-2.0
// TestCluster: what tests against a real API server make there and look at, as its administrator.
//
// No controller is needed: a pool is made Ready by writing the status that the controller would write. Whatever cannot
// be done throws std::runtime_error: a test cannot go on then.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "e2e/tls_client.h"
#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"

namespace berth::e2e {

// The credentials of a kubeconfig with a client certificate or a token, for connections of one's own.
[[nodiscard]] Upstream UpstreamOf(const std::string& kubeconfig_path);

struct Account {
  std::string name_space = "berth-system";
  std::string name = "berth-agent";
};

class TestCluster {
 public:
  explicit TestCluster(const std::string& admin_kubeconfig_path);
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  // Creates IPPool `name` with that spec. The answer of the API server where it refuses.
  [[nodiscard]] Expected<void> TryCreatePool(const std::string& name, const nlohmann::json& spec);
  // The same, and it must work; then writes status as the controller does: Ready, with the whole subnet claimable.
  void CreateReadyPool(const std::string& name, const nlohmann::json& spec);
  // Replaces the condition Ready.
  void SetReady(const std::string& name, bool ready, const std::string& reason, const std::string& message);
  // As the controller does for an IPReservation: before a block exists, and in a block that does.
  void Withhold(const std::string& name, const std::vector<std::string>& addresses);
  void Reserve(const std::string& pool, const std::string& address, const std::string& reservation);
  void PatchPool(const std::string& name, const nlohmann::json& patch);
  void DeletePool(const std::string& name);

  // The pool's blocks: at least everything that was written before this call.
  [[nodiscard]] std::vector<nlohmann::json> Blocks(const std::string& pool);
  // Every entry of the pool's blocks, by address.
  [[nodiscard]] std::map<std::string, std::string> Entries(const std::string& pool);
  // Removes the pool's blocks with all entries, whatever their finalizers.
  void RemoveBlocks(const std::string& pool);

  void CreateNamespace(const std::string& name, const nlohmann::json& labels);
  // Creates the Node if there is none.
  void LabelNode(const std::string& name, const nlohmann::json& labels);

  // A token of that service account as Kubernetes makes them for pods; `bound_to` is its boundObjectRef, null for none.
  [[nodiscard]] std::string Token(const Account& account, const nlohmann::json& bound_to);
  // What an agent on that node has: a token that names the node, which is created if there is none.
  [[nodiscard]] std::string AgentToken(const std::string& node);
  void WriteAgentKubeconfig(const std::string& node, const std::string& path);
  void DeleteNamespace(const std::string& name);

  // Any request; for what has no name here.
  [[nodiscard]] k8sclient::Api& api() { return *api_; }

 private:
  // Writes to a block of its own and returns its resourceVersion: a list that is not older holds every write before.
  // That takes 2 ms; a consistent list after a write to another kind takes 100.
  std::string LatestVersion();

  void Patch(const std::string& path, const nlohmann::json& patch);
  void Remove(const std::string& path);

  k8sclient::ClientConfig config_;
  std::unique_ptr<k8sclient::HttpApi> api_;
  std::string marker_;  // name of that block; empty: not made yet
  int marks_ = 0;
};

}  // namespace berth::e2e
