// SPDX-License-Identifier: Apache-2.0
// ScriptedApi: an Api that returns a test's answers and remembers the requests.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "k8sclient/api.h"

namespace berth::k8sclient::testing {

class ScriptedApi final : public Api {
 public:
  std::function<Expected<Response>(const Request&)> on_call = [](const Request&) { return Response{.status = 200}; };
  std::function<Expected<Response>(const Request&, const WatchOptions&, const WatchSink&)> on_watch =
      [](const Request&, const WatchOptions&, const WatchSink&) { return Response{.status = 200}; };

  Expected<Response> Call(const Request& request, const CallOptions&) override {
    Remember(request);
    return on_call(request);
  }
  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override {
    Remember(request);
    return on_watch(request, options, sink);
  }

  [[nodiscard]] std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Remember(const Request& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }

  mutable std::mutex mutex_;
  std::vector<Request> requests_;
};

// The value of a query parameter; "(none)" if the query has no such parameter.
[[nodiscard]] inline std::string QueryValue(const Request& request, std::string_view name) {
  for (const auto& [key, value] : request.query) {
    if (key == name) return value;
  }
  return "(none)";
}

}  // namespace berth::k8sclient::testing
