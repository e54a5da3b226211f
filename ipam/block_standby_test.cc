// SPDX-License-Identifier: Apache-2.0
// Block: which addresses are on standby, which ADDs take them, and when they are removed from standby.
#include <algorithm>

#include <gtest/gtest.h>

#include "ipam/block.h"

namespace berth::ipam {
namespace {

constexpr std::int64_t kStandbyNow = 1'700'000'000'000;
constexpr std::size_t kWanted = 16;

HeldEntry StandbyEntry(int number) {
  const std::string digits = std::to_string(number);
  HeldEntry entry;
  entry.pod_namespace = "team-a";
  entry.pod = "web-" + digits;
  entry.uid = "u";
  entry.attachment = "0123456789ab-" + std::string(16 - digits.size(), '0') + digits;
  entry.interface = "eth0";
  entry.since_ms = kStandbyNow;
  return entry;
}

Pool StandbyPool(const char* subnet) {
  Pool pool;
  pool.name = "p";
  pool.uid = "pool-uid";
  pool.subnet = Prefix::Parse(subnet).value();
  pool.ready = true;
  return pool;
}

// A block with one held entry and up to kWanted addresses on standby.
Block BlockOf(const Pool& pool) {
  Block block = NewBlock(pool, pool.subnet, "n1");
  EXPECT_TRUE(Take(block, pool, StandbyEntry(1), {}, kStandbyNow).has_value());
  RefillStandby(block, pool, kWanted, kStandbyNow);
  return block;
}

TEST(RefillStandby, TakesNoMoreThanWanted) {
  const Pool pool = StandbyPool("10.1.0.0/24");
  EXPECT_EQ(BlockOf(pool).standby.size(), kWanted);
}

TEST(RefillStandby, TakesWhatIsFreeOfASmallBlock) {
  EXPECT_EQ(BlockOf(StandbyPool("10.1.0.0/28")).standby.size(), 13U);
}

TEST(RefillStandby, TakesNothingOfABlockOfOneThatIsHeld) {
  EXPECT_TRUE(BlockOf(StandbyPool("10.1.0.0/32")).standby.empty());
}

TEST(RefillStandby, LeavesFreeAsItIs) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  EXPECT_EQ(BlockOf(pool).free, 61U);
}

TEST(RefillStandby, CorrectsAWrongFreeCount) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  block.free = 7;
  RefillStandby(block, pool, kWanted, kStandbyNow);
  EXPECT_EQ(block.free, 61U);
}

TEST(RefillStandby, GoesOnBehindTheLastAddress) {
  const Pool pool = StandbyPool("10.1.0.0/28");
  Block block = NewBlock(pool, pool.subnet, "n1");
  RefillStandby(block, pool, 2, kStandbyNow);
  EXPECT_EQ(block.standby, (OffsetSet{1, 2}));
  block.standby.clear();
  RefillStandby(block, pool, 2, kStandbyNow);
  EXPECT_EQ(block.standby, (OffsetSet{3, 4}));
}

TEST(RefillStandby, TakesNothingThatHasAnEntry) {
  const Pool pool = StandbyPool("10.1.0.0/28");
  Block block = NewBlock(pool, pool.subnet, "n1");
  for (BlockOffset offset = 1; offset < 14; ++offset) block.allocations[offset] = "held by somebody";
  RefillStandby(block, pool, kWanted, kStandbyNow);
  EXPECT_EQ(block.standby, OffsetSet{14});
}

// The agent has not removed the entry yet.
TEST(RefillStandby, SkipsACoolingEntryWhoseTimeIsOver) {
  const Pool pool = StandbyPool("10.1.0.0/28");
  Block block = NewBlock(pool, pool.subnet, "n1");
  block.allocations[2] = FormatEntry(CoolingEntry{.until_ms = kStandbyNow - 1, .forget = {}}).value();
  RefillStandby(block, pool, 3, kStandbyNow);
  EXPECT_EQ(block.standby, (OffsetSet{1, 3, 4}));
}

TEST(RefillStandby, LetsGoOfWhatThePoolDoesNotAssignAnyMore) {
  Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  ASSERT_TRUE(block.standby.contains(5));
  pool.withheld = {AddressRange::Parse("10.1.0.5").value()};
  RefillStandby(block, pool, kWanted, kStandbyNow);
  EXPECT_FALSE(block.standby.contains(5));
  EXPECT_EQ(block.standby.size(), kWanted);
}

struct AmongCase {
  const char* name;
  OffsetSet among;
  BlockOffset next;
  const char* want;
};
class TakeStandbyAmong : public testing::TestWithParam<AmongCase> {};

// A pod has the address 10.1.0.2.
TEST_P(TakeStandbyAmong, GivesTheFirstFreeAddressFromNextOn) {
  const Pool pool = StandbyPool("10.1.0.0/28");
  Block block = NewBlock(pool, pool.subnet, "n1");
  block.allocations[2] = FormatEntry(StandbyEntry(2)).value();
  block.standby = GetParam().among;
  block.next = GetParam().next;
  const auto taken = TakeStandby(block, pool, StandbyEntry(1), GetParam().among, kStandbyNow);
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_EQ(taken->ToString(), GetParam().want);
}

const AmongCase kAmongCases[] = {
    {"BehindOneThatIsHeld", {2, 5}, 0, "10.1.0.5"},
    {"ExactlyNext", {5, 9}, 5, "10.1.0.5"},
    {"NotOneBeforeNext", {3, 9}, 5, "10.1.0.9"},
    {"TheFirstIfNoneIsLeftBehindNext", {3, 4}, 5, "10.1.0.3"},
};
INSTANTIATE_TEST_SUITE_P(Table, TakeStandbyAmong, testing::ValuesIn(kAmongCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Take, LeavesAloneWhatIsOnStandby) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  const auto standby = block.standby;
  ASSERT_TRUE(Take(block, pool, StandbyEntry(2), {}, kStandbyNow));
  EXPECT_EQ(block.standby, standby);
}

TEST(Take, TakesWhatIsOnStandbyBeforeTheBlockIsFull) {
  const Pool pool = StandbyPool("10.1.0.0/28");
  Block block = BlockOf(pool);
  for (int i = 2; i <= 14; ++i) ASSERT_TRUE(Take(block, pool, StandbyEntry(i), {}, kStandbyNow)) << i;
  EXPECT_TRUE(block.standby.empty());
  EXPECT_EQ(Take(block, pool, StandbyEntry(15), {}, kStandbyNow).error().code, ErrorCode::kExhausted);
}

TEST(Take, TakesARequestedAddressThatIsOnStandby) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  const Address wanted = block.cidr.At(*block.standby.begin());
  ASSERT_EQ(Take(block, pool, StandbyEntry(2), wanted, kStandbyNow), wanted);
  EXPECT_EQ(block.standby.size(), kWanted - 1);
}

TEST(TakeStandby, TakesOneOfThoseItMay) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  const BlockOffset only = *std::ranges::max_element(block.standby);
  EXPECT_EQ(TakeStandby(block, pool, StandbyEntry(2), {only}, kStandbyNow), block.cidr.At(only));
  EXPECT_FALSE(block.standby.contains(only));
}

TEST(TakeStandby, IsRefusedWhereItMayTakeNone) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  EXPECT_EQ(TakeStandby(block, pool, StandbyEntry(2), {}, kStandbyNow).error().code, ErrorCode::kExhausted);
}

TEST(TakeStandby, TakesNothingThatThePoolDoesNotAssignAnyMore) {
  Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  pool.withheld = {AddressRange::Parse("10.1.0.0-10.1.0.63").value()};
  EXPECT_EQ(TakeStandby(block, pool, StandbyEntry(2), block.standby, kStandbyNow).error().code, ErrorCode::kExhausted);
}

TEST(TakeStandby, FromABlockThatIsBeingDeletedIsRefused) {
  const Pool pool = StandbyPool("10.1.0.0/26");
  Block block = BlockOf(pool);
  block.deleting = true;
  EXPECT_EQ(TakeStandby(block, pool, StandbyEntry(2), block.standby, kStandbyNow).error().code, ErrorCode::kConflict);
}

struct TrimCase {
  const char* name;
  std::map<BlockOffset, std::string> allocations;
  bool deleting;
  OffsetSet want;
};
class TrimStandbyTest : public testing::TestWithParam<TrimCase> {};

TEST_P(TrimStandbyTest, KeepsWhatMayBeGiven) {
  Block block = NewBlock(StandbyPool("10.1.0.0/26"), Prefix::Parse("10.1.0.0/26").value(), "n1");
  block.standby = {4, 5};
  block.allocations = GetParam().allocations;
  block.deleting = GetParam().deleting;
  TrimStandby(block);
  EXPECT_EQ(block.standby, GetParam().want);
}

const TrimCase kTrimCases[] = {
    {"ABlockThatHoldsSomething", {{1, "ns/pod u 0-0 i=eth0 t=1"}}, false, {4, 5}},
    {"ABlockWithAnEntryNobodyUnderstands", {{1, "?"}}, false, {4, 5}},
    {"WhatGotAnEntry", {{1, "ns/pod u 0-0 i=eth0 t=1"}, {4, "?"}}, false, {5}},
    {"AnEmptyBlock", {}, false, {4, 5}},
    {"ABlockThatIsBeingDeleted", {{1, "ns/pod u 0-0 i=eth0 t=1"}}, true, {}},
};
INSTANTIATE_TEST_SUITE_P(Table, TrimStandbyTest, testing::ValuesIn(kTrimCases),
                         [](const auto& c) { return std::string(c.param.name); });

struct HeldCase {
  const char* name;
  std::map<BlockOffset, std::string> allocations;
  bool want;
};
class HasHeldEntryTest : public testing::TestWithParam<HeldCase> {};

TEST_P(HasHeldEntryTest, SaysWhetherSomebodyHasAnAddress) {
  Block block = NewBlock(StandbyPool("10.1.0.0/26"), Prefix::Parse("10.1.0.0/26").value(), "n1");
  block.standby = {4, 5};
  block.allocations = GetParam().allocations;
  EXPECT_EQ(HasHeldEntry(block), GetParam().want);
}

const HeldCase kHeldCases[] = {
    {"AnEmptyBlock", {}, false},
    {"ABlockWhereOneCools", {{1, "~ t=1"}}, false},
    {"ABlockWhereOneIsReserved", {{1, "! printer"}}, false},
    {"ABlockOfAPod", {{1, "! printer"}, {2, "ns/pod u 0-0 i=eth0 t=1"}}, true},
    {"ABlockWithAnEntryNobodyUnderstands", {{1, "?"}}, true},
};
INSTANTIATE_TEST_SUITE_P(Table, HasHeldEntryTest, testing::ValuesIn(kHeldCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::ipam
