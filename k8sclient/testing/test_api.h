// SPDX-License-Identifier: Apache-2.0
// MakeApi: a client of a scripted server.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "k8sclient/http_api.h"
#include "k8sclient/testing/scripted_server.h"

namespace berth::k8sclient::testing {

// A time limit that only a failing test reaches.
[[nodiscard]] inline CallOptions Soon() { return CallOptions::Within(std::chrono::seconds(30)); }

// Makes a client that ignores the proxies of the test's environment.
[[nodiscard]] inline std::unique_ptr<Api> MakeApi(ClientConfig config, HttpApiOptions options = {}) {
  options.environment = [](const std::string&) { return std::string(); };
  if (config.source.empty()) config.source = "test";
  Expected<std::unique_ptr<Api>> api = MakeHttpApi(std::move(config), options);
  EXPECT_TRUE(api.has_value()) << api.error().message;
  return std::move(*api);
}

}  // namespace berth::k8sclient::testing
