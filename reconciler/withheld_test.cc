// SPDX-License-Identifier: Apache-2.0
// Withheld addresses: how they are fitted into a limit, and what an expired or unreadable reservation withholds.
#include "reconciler/withheld.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using ipam::RangeOf;

struct AtMostCase {
  const char* name;
  std::vector<std::string> ranges;
  std::size_t limit;
  std::vector<std::string> want;
};
class WithheldAtMost : public testing::TestWithParam<AtMostCase> {};

TEST_P(WithheldAtMost, JoinsRangesAcrossTheSmallestGaps) {
  const AtMostCase& c = GetParam();
  std::vector<ipam::AddressRange> ranges;
  for (const std::string& text : c.ranges) ranges.push_back(RangeOf(text));
  std::vector<std::string> got;
  for (const ipam::AddressRange& range : AtMost(ipam::IntervalSet(ranges), c.limit)) got.push_back(range.ToString());
  EXPECT_EQ(got, c.want);
}

const AtMostCase kAtMostCases[] = {
    {"Nothing", {}, 2, {}},
    {"WhatFitsStays", {"10.0.0.1", "10.0.0.3"}, 2, {"10.0.0.1", "10.0.0.3"}},
    {"NeighboursAreOneAnyway", {"10.0.0.1", "10.0.0.2", "10.0.0.9"}, 2, {"10.0.0.1-10.0.0.2", "10.0.0.9"}},
    {"TheSmallestGapGoesFirst", {"10.0.0.1", "10.0.0.9", "10.0.0.11"}, 2, {"10.0.0.1", "10.0.0.9-10.0.0.11"}},
    {"SeveralGaps", {"10.0.0.1", "10.0.0.3", "10.0.0.5", "10.9.0.0"}, 2, {"10.0.0.1-10.0.0.5", "10.9.0.0"}},
    {"EqualGapsFromBelow", {"10.0.0.1", "10.0.0.3", "10.0.0.5"}, 2, {"10.0.0.1-10.0.0.3", "10.0.0.5"}},
    {"FamiliesAreNeverJoined",
     {"10.0.0.1", "10.0.0.9", "2001:db8::1", "2001:db8::4"},
     2,
     {"10.0.0.1-10.0.0.9", "2001:db8::1-2001:db8::4"}},
    {"TheWidestGapOfAll",
     {"::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "10.0.0.1", "10.0.0.2"},
     2,
     {"10.0.0.1-10.0.0.2", "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}},
};
INSTANTIATE_TEST_SUITE_P(Table, WithheldAtMost, testing::ValuesIn(kAtMostCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Withheld, AJoinedSetStillContainsEveryAddress) {
  std::vector<ipam::AddressRange> ranges;
  for (int i = 0; i < 250; ++i) ranges.push_back(RangeOf("10.0.0." + std::to_string((i * 37) % 256)));
  ipam::IntervalSet lost{ranges};
  lost.Subtract(ipam::IntervalSet(AtMost(ipam::IntervalSet(ranges), 3)));
  EXPECT_TRUE(lost.empty());
}

TEST(Withheld, AnExpiredReservationWithholdsNoAddress) {
  TestWorld t;
  t.Reservation("over", {"10.55.0.5"}, kTestNowMs).Reservation("lasts", {"10.55.0.6"}, kTestNowMs + 1000);
  const auto ranges = ReservedRanges(t.world, "default", kTestNowMs);
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].reservation, "lasts");
  EXPECT_EQ(NextExpiry(t.world, kTestNowMs), kTestNowMs + 1000);
}

TEST(Withheld, ReservationsOfAnotherSpaceDoNotCount) {
  TestWorld t;
  t.Reservation("other", {"10.55.0.5"}, 0, "blue");
  EXPECT_TRUE(ReservedRanges(t.world, "default", kTestNowMs).empty());
}

TEST(Withheld, AllWithheldAddressesStayWhileAReservationCannotBeRead) {
  TestWorld t;
  t.Reservation("backwards", {"10.55.0.9-10.55.0.5"});
  EXPECT_FALSE(MayStopWithholding(t.world, "default", {}));
  EXPECT_TRUE(MayStopWithholding(t.world, "blue", {}));
}

TEST(Withheld, AllWithheldAddressesStayWhileAnAcceptedPoolCannotBeRead) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}}).Space("default", {"web"});
  const auto accepted = t.world.spaces.at("default").accepted;
  EXPECT_TRUE(MayStopWithholding(t.world, "default", accepted));
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"gateway", "nonsense"}});
  EXPECT_FALSE(MayStopWithholding(t.world, "default", accepted));
}

TEST(Withheld, GatewaysOfPoolsThatAreNotAcceptedDoNotCount) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"gateway", "10.55.0.1"}})
      .Pool("not-in", {{"subnet", "10.55.1.0/24"}, {"gateway", "10.55.1.1"}})
      .Space("default", {"web"});
  const ipam::IntervalSet set = WithheldSet(t.world, t.world.spaces.at("default").accepted, {});
  EXPECT_TRUE(set.Contains(ipam::AddressOf("10.55.0.1")));
  EXPECT_FALSE(set.Contains(ipam::AddressOf("10.55.1.1")));
}

TEST(Withheld, NoRangeEndsWithAnIPv4MappedAddress) {
  const std::vector<ReservedRange> adjacent = {{RangeOf("::fffd:ffff:ffff"), "a"}, {RangeOf("::fffe:0:0/95"), "b"}};
  const auto ranges = AtMost(WithheldSet(World(), {}, adjacent), 2);
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_TRUE(ipam::AddressRange::Parse(ranges[0].ToString())) << ranges[0].ToString();
}

TEST(Withheld, TheGatewayOfANewPoolWithAnAcceptedPoolsNameDoesNotCount) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"gateway", "10.55.0.1"}}).Space("default", {"web"});
  auto accepted = t.world.spaces.at("default").accepted;
  accepted[0].uid = "uid-of-the-former";
  EXPECT_TRUE(WithheldSet(t.world, accepted, {}).empty());
}

}  // namespace
}  // namespace berth::reconciler
