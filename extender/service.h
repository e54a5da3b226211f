// SPDX-License-Identifier: Apache-2.0
// Service: the requests that kube-scheduler makes of an extender, from HTTP's path and body to its status and body.
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
    // Who the pod is and what it needs, from its JSON.
    std::function<Expected<Pod>(const nlohmann::json& pod)> read_pod;
    std::function<SteadyTime()> now = [] { return std::chrono::steady_clock::now(); };
    // One request was answered. `verb`: filter, prioritize or other; `result`: chosen, none (no node has an address
    // left), error (the answer is only why there is none) or refused (the request is none that berth understands).
    std::function<void(std::string_view verb, std::string_view result, std::chrono::nanoseconds took)> observe =
        [](std::string_view, std::string_view, std::chrono::nanoseconds) {};
  };
  explicit Service(Parts parts) : parts_(std::move(parts)) {}

  // POST <any prefix>/filter and /prioritize. Any thread.
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
