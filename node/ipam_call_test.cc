// SPDX-License-Identifier: Apache-2.0
// IpamCall: when a call's process began.
#include "node/ipam_call.h"

#include <gtest/gtest.h>

namespace berth::node {
namespace {

using std::chrono::microseconds;
using std::chrono::system_clock;

// What a process took in the millisecond in which the other began counts as later.
TEST(StartMillis, IsRoundedDownWhereTheAgeIsNoWholeMillisecond) {
  EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(11'850)), microseconds(950)), 10);
}

TEST(StartMillis, IsRoundedDownOnceAndNotTwice) {
  EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(12'900)), microseconds(1'100)), 11);
}

TEST(StartMillis, IsNowForWhatBeginsNow) {
  EXPECT_EQ(StartMillis(system_clock::time_point(microseconds(7'000)), microseconds(0)), 7);
}

}  // namespace
}  // namespace berth::node
