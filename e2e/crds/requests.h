// SPDX-License-Identifier: Apache-2.0
// Short calls to the API server that these tests may write to.
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

// The administrator's access to the cluster that `e2e/cluster env` describes. Throws std::runtime_error if there is
// none: an exported KUBECONFIG alone may be production.
[[nodiscard]] k8sclient::ClientConfig AdminConfig();

// Somebody who calls the API server.
class Caller {
 public:
  // Throws std::runtime_error if the credentials are unusable.
  explicit Caller(const k8sclient::ClientConfig& config);
  // One request. Throws std::runtime_error if there is no complete answer. `path` with its query, not percent-encoded.
  [[nodiscard]] Answer Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body,
                            std::string_view content_type = k8sclient::kJson) const;
  [[nodiscard]] Answer Get(const std::string& path, std::string_view accept = k8sclient::kJson) const;

 private:
  [[nodiscard]] Answer Call(const k8sclient::Request& request) const;

  std::shared_ptr<k8sclient::Api> api_;
};

// The same as the administrator.
[[nodiscard]] Answer Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body,
                          std::string_view content_type = k8sclient::kJson);
[[nodiscard]] Answer Get(const std::string& path, std::string_view accept = k8sclient::kJson);

// The collection that an object belongs to.
[[nodiscard]] std::string CollectionOf(const nlohmann::json& object);

// A file of the source tree.
[[nodiscard]] std::string ReadSource(const std::string& path);

}  // namespace berth::e2e
