// SPDX-License-Identifier: Apache-2.0
// Backoff: how long a failure makes an object wait, and that it makes no other object wait.
#include "reconciler/backoff.h"

#include <gtest/gtest.h>

namespace berth::reconciler {
namespace {

using std::chrono::milliseconds;

constexpr Backoff::Time kStart{};

Error Of(ErrorCode code, milliseconds retry_after = {}) {
  return {.code = code, .message = "x", .details = {}, .retry_after = retry_after};
}

milliseconds AfterFailures(int count, ErrorCode code) {
  Backoff backoff;
  milliseconds wait{};
  for (int i = 0; i < count; ++i) wait = backoff.Failed("a", Of(code), kStart);
  return wait;
}

TEST(Backoff, DoublesTheWaitUpTo30Seconds) {
  EXPECT_EQ(AfterFailures(1, ErrorCode::kInvalid), milliseconds(50));
  EXPECT_EQ(AfterFailures(2, ErrorCode::kInvalid), milliseconds(100));
  EXPECT_EQ(AfterFailures(100, ErrorCode::kInvalid), milliseconds(30'000));
}

TEST(Backoff, WaitsAtMostOneSecondAfterConflicts) {
  EXPECT_EQ(AfterFailures(100, ErrorCode::kConflict), milliseconds(1000));
  EXPECT_EQ(AfterFailures(100, ErrorCode::kNotFound), milliseconds(1000));
  EXPECT_EQ(AfterFailures(100, ErrorCode::kAlreadyExists), milliseconds(1000));
}

TEST(Backoff, WaitsAtLeastAsLongAsTheServerAsks) {
  Backoff backoff;
  EXPECT_EQ(backoff.Failed("a", Of(ErrorCode::kUnavailable, milliseconds(7000)), kStart), milliseconds(7000));
}

TEST(Backoff, LetsNoOtherKeyWait) {
  Backoff backoff;
  backoff.Failed("a", Of(ErrorCode::kInvalid), kStart);
  EXPECT_FALSE(backoff.MayTry("a", kStart + milliseconds(49)));
  EXPECT_TRUE(backoff.MayTry("a", kStart + milliseconds(50)));
  EXPECT_TRUE(backoff.MayTry("b", kStart));
}

TEST(Backoff, StartsWithTheShortestWaitAfterASuccess) {
  Backoff backoff;
  for (int i = 0; i < 5; ++i) backoff.Failed("a", Of(ErrorCode::kInvalid), kStart);
  backoff.Succeeded("a");
  EXPECT_TRUE(backoff.MayTry("a", kStart));
  EXPECT_EQ(backoff.Failed("a", Of(ErrorCode::kInvalid), kStart), milliseconds(50));
}

TEST(Backoff, SaysWhenTheNextWaitEnds) {
  Backoff backoff;
  EXPECT_FALSE(backoff.Next(kStart).has_value());
  backoff.Pause("a", milliseconds(500), kStart);
  backoff.Pause("b", milliseconds(200), kStart);
  EXPECT_EQ(backoff.Next(kStart), kStart + milliseconds(200));
  EXPECT_EQ(backoff.Next(kStart + milliseconds(200)), kStart + milliseconds(500));
  EXPECT_FALSE(backoff.Next(kStart + milliseconds(500)).has_value());
}

TEST(Backoff, IsNotShortenedByAPause) {
  Backoff backoff;
  backoff.Failed("a", Of(ErrorCode::kUnavailable, milliseconds(7000)), kStart);
  backoff.Pause("a", milliseconds(500), kStart);
  EXPECT_FALSE(backoff.MayTry("a", kStart + milliseconds(6999)));
}

TEST(Backoff, EndsLongWaitsAtTheSameWholeSecond) {
  Backoff backoff;
  for (int i = 0; i < 300; ++i) {
    static_cast<void>(backoff.Failed(
        std::to_string(i), Of(ErrorCode::kForbidden, std::chrono::seconds(5)), kStart + milliseconds(1 + i)));
  }
  EXPECT_EQ(backoff.Next(kStart + std::chrono::seconds(1)), kStart + std::chrono::seconds(6));
  EXPECT_FALSE(backoff.Next(kStart + std::chrono::seconds(6)).has_value());
}

TEST(Backoff, ForgetsAKeyFiveMinutesAfterItsWaitEnded) {
  Backoff backoff;
  for (int i = 0; i < 5; ++i) backoff.Failed("a", Of(ErrorCode::kInvalid), kStart);
  backoff.Forget(kStart + std::chrono::minutes(4), {});
  EXPECT_EQ(backoff.Failed("a", Of(ErrorCode::kInvalid), kStart), milliseconds(1600));
  backoff.Forget(kStart + std::chrono::minutes(6), {});
  EXPECT_EQ(backoff.Failed("a", Of(ErrorCode::kInvalid), kStart), milliseconds(50));
}

TEST(Backoff, NeverForgetsWantedKeys) {
  Backoff backoff;
  for (int i = 0; i < 5; ++i) backoff.Failed("a", Of(ErrorCode::kInvalid), kStart);
  backoff.Forget(kStart + std::chrono::minutes(60), {"a"});
  EXPECT_EQ(backoff.Failed("a", Of(ErrorCode::kInvalid), kStart), milliseconds(1600));
}

}  // namespace
}  // namespace berth::reconciler
