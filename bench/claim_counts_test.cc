// SPDX-License-Identifier: Apache-2.0
// CountedApi: how it counts answers, which come from a list instead of an API server.
#include "bench/claim_counts.h"

#include <deque>

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

using k8sclient::Method;
using k8sclient::Response;

class Answers final : public k8sclient::Api {
 public:
  explicit Answers(std::deque<Expected<Response>> answers) : answers_(std::move(answers)) {}
  [[nodiscard]] Expected<Response> Call(const k8sclient::Request& /*request*/,
                                        const k8sclient::CallOptions& /*options*/) override {
    Expected<Response> answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  [[nodiscard]] Expected<Response> Watch(const k8sclient::Request& /*request*/,
                                         const k8sclient::WatchOptions& /*options*/,
                                         const k8sclient::WatchSink& /*sink*/) override {
    return Response{.status = 200};
  }

 private:
  std::deque<Expected<Response>> answers_;
};

// Returns the counts after one request.
ClaimTotals After(const k8sclient::Request& request, Expected<Response> answer) {
  ClaimCounts counts;
  CountedApi api(std::make_unique<Answers>(std::deque<Expected<Response>>{std::move(answer)}), "/blocks", counts);
  static_cast<void>(api.Call(request, {}).has_value());
  return counts.Totals();
}

const k8sclient::Request kPost{.method = Method::kPost, .path = "/blocks"};

TEST(ClaimCounts, CountABlockThatWasCreated) {
  const ClaimTotals totals = After(kPost, Response{.status = 201});
  EXPECT_EQ(totals.created, 1U);
  EXPECT_EQ(totals.posts(), 1U);
}

TEST(ClaimCounts, CountANameThatWasTaken) {
  const ClaimTotals totals = After(kPost, Response{.status = 409});
  EXPECT_EQ(totals.taken, 1U);
  EXPECT_EQ(totals.posts(), 1U);
}

TEST(ClaimCounts, CountARefusalAsFailed) { EXPECT_EQ(After(kPost, Response{.status = 429}).failed, 1U); }

TEST(ClaimCounts, CountALostAnswerAsFailed) {
  EXPECT_EQ(After(kPost, Fail(ErrorCode::kUnknownOutcome, "cut off")).failed, 1U);
}

TEST(ClaimCounts, LeaveOutReads) { EXPECT_EQ(After({.path = "/blocks"}, Response{.status = 200}).posts(), 0U); }

TEST(ClaimCounts, LeaveOutOtherCollections) {
  EXPECT_EQ(After({.method = Method::kPost, .path = "/pools"}, Response{.status = 201}).posts(), 0U);
}

}  // namespace
}  // namespace berth::bench
