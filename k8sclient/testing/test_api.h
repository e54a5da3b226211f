// SPDX-License-Identifier: Apache-2.0
// A client for a scripted server, and what tests of HttpApi say again and again.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "k8sclient/http_api.h"
#include "k8sclient/testing/scripted_server.h"

namespace berth::k8sclient::testing {

// Long enough that it only ends a test that has failed.
[[nodiscard]] inline CallOptions Soon() { return CallOptions::Within(std::chrono::seconds(30)); }

// Without the proxies of the machine that the test runs on.
[[nodiscard]] inline std::unique_ptr<HttpApi> MakeApi(ClientConfig config, HttpApiOptions options = {}) {
  options.environment = [](const std::string&) { return std::string(); };
  if (config.source.empty()) config.source = "test";
  Expected<std::unique_ptr<HttpApi>> api = HttpApi::Make(std::move(config), options);
  EXPECT_TRUE(api.has_value()) << api.error().message;
  return std::move(*api);
}

}  // namespace berth::k8sclient::testing
