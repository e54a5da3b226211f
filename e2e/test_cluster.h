// SPDX-License-Identifier: Apache-2.0
// TestCluster: creates and reads objects on a real API server for tests, as its administrator.
//
// A test needs no controller: TestCluster makes a pool Ready by writing the status that the controller would write.
// Functions throw std::runtime_error on failure, because the test cannot continue.
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

// The server and credentials in a kubeconfig that has a client certificate or a token.
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

  // Creates IPPool `name` with `spec`. Errors: the API server's refusal.
  [[nodiscard]] Expected<void> TryCreatePool(const std::string& name, const nlohmann::json& spec);
  // Creates the pool, and throws if that fails. Then writes status as the controller does: Ready, and the whole subnet
  // claimable.
  void CreateReadyPool(const std::string& name, const nlohmann::json& spec);
  // Replaces the condition Ready.
  void SetReady(const std::string& name, bool ready, const std::string& reason, const std::string& message);
  // Withhold and Reserve do what the controller does for an IPReservation: Withhold writes the pool's status, and
  // Reserve writes an entry into a block that exists.
  void Withhold(const std::string& name, const std::vector<std::string>& addresses);
  void Reserve(const std::string& pool, const std::string& address, const std::string& reservation);
  void PatchPool(const std::string& name, const nlohmann::json& patch);
  void DeletePool(const std::string& name);

  // The pool's blocks, including everything that was written before this call.
  [[nodiscard]] std::vector<nlohmann::json> Blocks(const std::string& pool);
  // Every entry of the pool's blocks, by address.
  [[nodiscard]] std::map<std::string, std::string> Entries(const std::string& pool);
  // Removes the pool's blocks with all entries, even if the blocks have finalizers.
  void RemoveBlocks(const std::string& pool);

  void CreateNamespace(const std::string& name, const nlohmann::json& labels);
  // Creates the Node if there is none.
  void LabelNode(const std::string& name, const nlohmann::json& labels);

  // Requests a token of the service account, as Kubernetes does for pods. `bound_to` is the boundObjectRef; null: none.
  [[nodiscard]] std::string Token(const Account& account, const nlohmann::json& bound_to);
  // An agent's token that names the node. Creates the Node if there is none.
  [[nodiscard]] std::string AgentToken(const std::string& node);
  void WriteAgentKubeconfig(const std::string& node, const std::string& path);
  void DeleteNamespace(const std::string& name);

  // For requests without a function of TestCluster.
  [[nodiscard]] k8sclient::Api& api() { return *api_; }

 private:
  // Writes to the marker block and returns its resourceVersion. A list that is not older than this version contains
  // every earlier write. The write takes 2 ms; a consistent list after a write to another kind takes 100 ms.
  std::string LatestVersion();

  void Patch(const std::string& path, const nlohmann::json& patch);
  void Remove(const std::string& path);

  k8sclient::ClientConfig config_;
  std::unique_ptr<k8sclient::Api> api_;
  std::string marker_;  // name of the marker block; empty: not created yet
  int marks_ = 0;
};

}  // namespace berth::e2e
