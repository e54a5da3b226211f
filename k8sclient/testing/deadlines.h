// SPDX-License-Identifier: Apache-2.0
// Deadlines: an Api that passes calls to another Api, and remembers the calls' deadlines.
#pragma once

#include <chrono>
#include <vector>

#include "k8sclient/api.h"

namespace berth::k8sclient::testing {

class Deadlines final : public Api {
 public:
  // inner must outlive this.
  explicit Deadlines(Api& inner) : inner_(inner) {}

  Expected<Response> Call(const Request& request, const CallOptions& options) override {
    seen.push_back(options.deadline);
    return inner_.Call(request, options);
  }
  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

  std::vector<std::chrono::steady_clock::time_point> seen;

 private:
  Api& inner_;
};

}  // namespace berth::k8sclient::testing
