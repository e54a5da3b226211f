// SPDX-License-Identifier: Apache-2.0
// RealServer: the connection to the API server, and e2e/cluster's commands.
#include "real_server.h"

#include <atomic>
#include <cstdio>
#include <thread>
#include <unistd.h>

#include "base/places.h"
#include "k8sclient/child_process.h"
#include "k8sclient/kubeconfig.h"
#include "k8sclient/verbs.h"

namespace berth::k8sclient {

using nlohmann::json;

void RealServer::SetUp() {
  directory_ = ProcessEnvironment("BERTH_TEST_CLUSTER_DIR");
  ASSERT_NE(directory_, "") << "BERTH_TEST_CLUSTER_DIR is not set: run e2e/k8sclient.sh";
  const auto config = LoadKubeconfig({directory_ + "/admin.kubeconfig"}, "", ReadWholeFile);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  config_ = *config;
  api_ = Make(config_);
  static std::atomic<int> count = 0;
  namespace_ = "k8sclient-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  const auto created =
      Create(*api_, "/api/v1/namespaces", {{"metadata", {{"name", namespace_}}}}, CallOptions::Within(kSoon));
  ASSERT_TRUE(created.has_value()) << created.error().message;
}

std::unique_ptr<Api> RealServer::Make(ClientConfig config) const {
  auto api = MakeHttpApi(std::move(config));
  EXPECT_TRUE(api.has_value()) << api.error().message;
  return std::move(*api);
}

std::string RealServer::Collection() const { return Path({"api", "v1", "namespaces", namespace_, "configmaps"}); }

std::string RealServer::PathOf(const std::string& name) const {
  return Path({"api", "v1", "namespaces", namespace_, "configmaps", name});
}

json RealServer::CreateMap(const std::string& name, const std::string& value) {
  const auto created =
      Create(api(), Collection(), {{"metadata", {{"name", name}}}, {"data", {{"value", value}}}}, Soon());
  EXPECT_TRUE(created.has_value()) << created.error().message;
  return created ? *created : json();
}

std::string RealServer::Cluster(const std::string& command) const {
  const std::string script = SourceDir() + "/e2e/cluster " + command + " --dir " + directory_;
  std::vector<std::string> environment;
  for (const char* const* entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const auto result = RunChild({.program = "sh", .args = {"-c", script}, .environment = std::move(environment)},
                               CallOptions::Within(std::chrono::minutes(3)));
  EXPECT_TRUE(result.has_value()) << result.error().message;
  if (!result) return {};
  EXPECT_EQ(result->exit_code, 0) << result->output << result->error_output;
  return result->output;
}

bool Await(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace berth::k8sclient
