// SPDX-License-Identifier: Apache-2.0
// SlowPages: an Api that answers each call with the next page of a list, 25 s of a FakeClock after the call.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "k8sclient/api.h"
#include "k8sclient/testing/fake_clock.h"

namespace berth::k8sclient::testing {

class SlowPages final : public Api {
 public:
  static constexpr std::chrono::seconds kPageTakes{25};

  SlowPages(FakeClock& clock, int pages) : clock_(clock), pages_(pages) {}

  // From now on the second page of a list gets "410 Gone", and the whole list in one answer takes that long.
  void ForgetAfterTheFirstPage(std::chrono::seconds whole_takes) { whole_takes_ = whole_takes; }

  Expected<Response> Call(const Request& request, const CallOptions& options) override {
    const bool is_whole = request.query.empty();
    const bool is_first = !is_whole && request.query.back().first != "continue";
    if (whole_takes_ && !is_whole && !is_first) return Response{.status = 410, .body = "{}"};
    clock_.Advance(is_whole ? whole_takes_.value_or(kPageTakes) : kPageTakes);
    if (clock_.Now() > options.deadline) return Fail(ErrorCode::kTimeout, "no answer within the time limit");
    const std::string name = std::to_string(++sent_);
    nlohmann::json list = {{"items", {{{"metadata", {{"name", name}}}}}}, {"metadata", {{"resourceVersion", "7"}}}};
    if (sent_ < pages_ && !is_whole) list["metadata"]["continue"] = name;
    return Response{.status = 200, .body = list.dump()};
  }
  Expected<Response> Watch(const Request& /*request*/, const WatchOptions& /*options*/,
                           const WatchSink& /*sink*/) override {
    return Response{.status = 200};
  }
  // Pages sent.
  [[nodiscard]] int sent() const { return sent_; }

 private:
  FakeClock& clock_;
  const int pages_;
  int sent_ = 0;
  std::optional<std::chrono::seconds> whole_takes_;
};

}  // namespace berth::k8sclient::testing
