// SPDX-License-Identifier: Apache-2.0
// Service: answers kube-scheduler's requests to an extender. It turns a path and a body of HTTP into a status and a
// body.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "extender/choice.h"
#include "http/http_server.h"

namespace berth::extender {

class Service {
 public:
  struct Parts {
    Chooser& chooser;  // must outlive this
    // Reads the pod's identity and needs from its JSON.
    std::function<Expected<Pod>(const nlohmann::json& pod)> read_pod;
    std::function<SteadyTime()> now = [] { return std::chrono::steady_clock::now(); };
    // Called after each request. `verb`: filter, prioritize or other. `result`: chosen, none (the answer to filter
    // has no node), error (the answer only says why no choice is possible) or refused (berth does not understand the
    // request).
    std::function<void(std::string_view verb, std::string_view result, std::chrono::nanoseconds took)> observe =
        [](std::string_view, std::string_view, std::chrono::nanoseconds) {};
  };
  explicit Service(Parts parts) : parts_(std::move(parts)) {}

  // Answers POST <any prefix>/filter and /prioritize. Any thread may call it.
  [[nodiscard]] http::HttpAnswer Answer(std::string_view method, std::string_view target, std::string_view body);

 private:
  struct Outcome {
    http::HttpAnswer answer;
    std::string_view result;
  };
  [[nodiscard]] Outcome Filter(std::string_view body);
  [[nodiscard]] Outcome Prioritize(std::string_view body);

  Parts parts_;
};

}  // namespace berth::extender
