// SPDX-License-Identifier: Apache-2.0
// StartMillis: the time at which a call's process started.
#include "node/ipam_call.h"

#include <limits>

#include <gtest/gtest.h>

namespace berth::node {
namespace {

using std::chrono::microseconds;
using std::chrono::system_clock;

// An entry of the same millisecond in which the GC's process started must count as later.
TEST(StartMillis, IsRoundedDownIfTheAgeIsNoWholeMillisecond) {
  EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(11'850)), 950'000), 10);
}

TEST(StartMillis, IsRoundedDownOnceAndNotTwice) {
  EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(12'900)), 1'100'000), 11);
}

TEST(StartMillis, IsTheMillisecondBeforeIfTheAgeIsOneNanosecond) {
  EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(12'000)), 1), 11);
}

TEST(StartMillis, DoesNotOverflowForTheLargestAge) {
  constexpr auto kMax = std::numeric_limits<BootNanos>::max();
  EXPECT_LT(StartMillis(system_clock::time_point(microseconds(12'000)), kMax), 0);
  EXPECT_GT(StartMillis(system_clock::time_point(microseconds(12'000)), -kMax), 12);
}

TEST(StartMillis, IsNowIfTheAgeIsZero) { EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(7'000)), 0), 7); }

}  // namespace
}  // namespace berth::node
