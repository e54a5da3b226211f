// SPDX-License-Identifier: Apache-2.0
// RealServer: the API server that e2e/k8sclient.sh has started, for tests that use and restart it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"

namespace berth::k8sclient {

// Each test gets a namespace of its own. If BERTH_TEST_CLUSTER_DIR is not set, a test fails instead of being skipped.
class RealServer : public ::testing::Test {
 protected:
  void SetUp() override;

  // The administrator's configuration, with a client certificate.
  [[nodiscard]] const ClientConfig& config() const { return config_; }
  [[nodiscard]] Api& api() { return *api_; }
  [[nodiscard]] std::unique_ptr<Api> Make(ClientConfig config) const;

  // The paths of the ConfigMaps in the test's namespace, and of one ConfigMap.
  [[nodiscard]] std::string Collection() const;
  [[nodiscard]] std::string PathOf(const std::string& name) const;
  [[nodiscard]] const std::string& name_space() const { return namespace_; }

  // Creates a ConfigMap and returns it.
  nlohmann::json CreateMap(const std::string& name, const std::string& value = "");

  // Runs e2e/cluster COMMAND for this cluster, expects success, and returns the output.
  std::string Cluster(const std::string& command) const;

  static constexpr std::chrono::seconds kSoon{60};
  [[nodiscard]] static CallOptions Soon() { return CallOptions::Within(kSoon); }

 private:
  std::string directory_;
  ClientConfig config_;
  std::unique_ptr<Api> api_;
  std::string namespace_;
};

// Waits until the condition is true. False: 60 s have passed.
[[nodiscard]] bool Await(const std::function<bool()>& condition);

}  // namespace berth::k8sclient
