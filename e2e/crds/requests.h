// SPDX-License-Identifier: Apache-2.0
// Sends requests to the API server of these tests.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "k8sclient/api.h"
#include "k8sclient/client_config.h"

namespace berth::e2e {

struct Answer {
  int status = 0;
  nlohmann::json body;
  std::size_t bytes = 0;
};

// The administrator's access to the cluster that `e2e/cluster env` describes. Throws std::runtime_error if there is no
// such cluster: an exported KUBECONFIG alone may belong to a production cluster.
[[nodiscard]] k8sclient::ClientConfig AdminConfig();

// A client of the API server with its own credentials.
class Caller {
 public:
  // Throws std::runtime_error if the credentials are unusable.
  explicit Caller(const k8sclient::ClientConfig& config);
  // Sends one request. path: with its query, not percent-encoded. Throws std::runtime_error if no complete answer
  // comes.
  [[nodiscard]] Answer Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body,
                            std::string_view content_type = k8sclient::kJson) const;
  [[nodiscard]] Answer Get(const std::string& path, std::string_view accept = k8sclient::kJson) const;

 private:
  [[nodiscard]] Answer Call(const k8sclient::Request& request) const;

  std::shared_ptr<k8sclient::Api> api_;
};

// Like the functions of Caller, as the administrator.
[[nodiscard]] Answer Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body,
                          std::string_view content_type = k8sclient::kJson);
[[nodiscard]] Answer Get(const std::string& path, std::string_view accept = k8sclient::kJson);

// The collection that an object belongs to.
[[nodiscard]] std::string CollectionOf(const nlohmann::json& object);

// Reads a file of the source tree.
[[nodiscard]] std::string ReadSource(const std::string& path);

}  // namespace berth::e2e
