// SPDX-License-Identifier: Apache-2.0
// DateAdder: adds a Date to the answers of another Api.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "k8sclient/api.h"

namespace berth::k8sclient::testing {

class DateAdder final : public Api {
 public:
  using WallClock = std::function<std::chrono::system_clock::time_point()>;
  // inner must outlive this. `now`: the server's wall clock; any thread calls it.
  DateAdder(Api& inner, WallClock now) : inner_(inner), now_(std::move(now)) {}

  Expected<Response> Call(const Request& request, const CallOptions& options) override {
    auto response = inner_.Call(request, options);
    if (response) response->date = std::chrono::floor<std::chrono::seconds>(now_());
    return response;
  }
  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override {
    const auto began = now_();
    auto response = inner_.Watch(request, options, sink);
    if (response) response->date = std::chrono::floor<std::chrono::seconds>(began);
    return response;
  }

 private:
  Api& inner_;
  WallClock now_;
};

}  // namespace berth::k8sclient::testing
