// SPDX-License-Identifier: Apache-2.0
// Block: names, taking and freeing addresses, and addresses that are never taken.
#include "ipam/block.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace berth::ipam {
namespace {

constexpr std::int64_t kNow = 1'700'000'000'000;

std::string AttachmentNumber(int number) {
  const std::string digits = std::to_string(number);
  return "0123456789ab-" + std::string(16 - digits.size(), '0') + digits;
}

HeldEntry EntryNumber(int number) {
  HeldEntry entry;
  entry.pod_namespace = "team-a";
  entry.pod = "web-" + std::to_string(number);
  entry.uid = "u";
  entry.attachment = AttachmentNumber(number);
  entry.interface = "eth0";
  entry.since_ms = kNow;
  return entry;
}

// 10.1.2.0/29 with gateway .1: five assignable addresses, .2 to .6.
Pool SmallPool() {
  Pool pool;
  pool.name = "small";
  pool.uid = "pool-uid";
  pool.subnet = Prefix::Parse("10.1.2.0/29").value();
  pool.gateway = Address::Parse("10.1.2.1").value();
  pool.ready = true;
  return pool;
}

Block SmallBlock() { return NewBlock(SmallPool(), SmallPool().subnet, "n1"); }

struct NameCase {
  const char* name;
  const char* space;
  const char* cidr;
  const char* want;
};
class BlockNames : public testing::TestWithParam<NameCase> {};

TEST_P(BlockNames, AreMadeFromSpaceAndCidr) {
  EXPECT_EQ(BlockName(GetParam().space, Prefix::Parse(GetParam().cidr).value()), GetParam().want);
}

constexpr NameCase kNameCases[] = {
    {"DefaultSpaceIsLeftOut", "default", "10.55.0.0/26", "10.55.0.0-26"},
    {"OtherSpaceIsAPrefix", "blue", "10.55.0.0/26", "blue.10.55.0.0-26"},
    {"ColonsBecomeDashes", "default", "2001:db8::/122", "2001-db8---122"},
    {"NeverStartsWithADash", "default", "::/120", "0---120"},
    {"SpaceKeepsTheLeadingZero", "blue", "::/120", "blue.0---120"},
};
INSTANTIATE_TEST_SUITE_P(Table, BlockNames, testing::ValuesIn(kNameCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Block, ANewOneKnowsHowManyAddressesAreFree) { EXPECT_EQ(SmallBlock().free, 5U); }

TEST(Take, GivesTheFirstFreeAddress) {
  Block block = SmallBlock();
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(1), {}, kNow)->ToString(), "10.1.2.2");
}

TEST(Take, LowersTheFreeCount) {
  Block block = SmallBlock();
  ASSERT_TRUE(Take(block, SmallPool(), EntryNumber(1), {}, kNow));
  EXPECT_EQ(block.free, 4U);
}

TEST(Take, GivesTheSameAttachmentTheSameAddressAgain) {
  Block block = SmallBlock();
  const auto first = Take(block, SmallPool(), EntryNumber(1), {}, kNow);
  const Block after_first = block;
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(1), {}, kNow), first);
  EXPECT_EQ(block, after_first) << "nothing must be written for it";
}

TEST(Take, LetsAnAddressRestUntilAllOthersHadTheirTurn) {
  Block block = SmallBlock();
  std::set<std::string> seen;
  for (int i = 0; i < 5; ++i) {
    seen.insert(Take(block, SmallPool(), EntryNumber(i), {}, kNow)->ToString());
    ASSERT_TRUE(Release(block, AttachmentNumber(i), kNow));
  }
  EXPECT_EQ(seen.size(), 5U);
}

TEST(Take, OfAFullBlockIsExhausted) {
  Block block = SmallBlock();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Take(block, SmallPool(), EntryNumber(i), {}, kNow));
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(9), {}, kNow).error().code, ErrorCode::kExhausted);
}

TEST(Take, ReusesTheOneAddressOfAFullBlockThatCameBack) {
  Block block = SmallBlock();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Take(block, SmallPool(), EntryNumber(i), {}, kNow));
  ASSERT_TRUE(Release(block, AttachmentNumber(3), kNow));
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(9), {}, kNow)->ToString(), "10.1.2.5");
}

TEST(Take, FromABlockThatIsBeingDeletedIsRefused) {
  Block block = SmallBlock();
  block.deleting = true;
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(1), {}, kNow).error().code, ErrorCode::kConflict);
}

TEST(Take, FromABlockOfAPoolThatWasMadeAgainIsRefused) {
  Block block = SmallBlock();
  block.pool_uid = "an older pool of that name";
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(1), {}, kNow).error().code, ErrorCode::kConflict);
}

TEST(Take, LeavesAnEntryAloneThatItDoesNotUnderstand) {
  Block block = SmallBlock();
  block.allocations[2] = "from a later version";
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(1), {}, kNow)->ToString(), "10.1.2.3");
}

struct RequestCase {
  const char* name;
  const char* address;
  ErrorCode want;
};
class TakeRequested : public testing::TestWithParam<RequestCase> {};

TEST_P(TakeRequested, IsRefusedWithTheRightCode) {
  Pool pool = SmallPool();
  pool.withheld = {AddressRange::Parse("10.1.2.5").value()};
  Block block = NewBlock(pool, pool.subnet, "n1");
  ASSERT_TRUE(Take(block, pool, EntryNumber(1), {}, kNow));
  block.allocations[3] = "! printer";
  block.allocations[4] = "~ t=" + std::to_string(kNow + 1);
  const Block before = block;
  const auto taken = Take(block, pool, EntryNumber(2), Address::Parse(GetParam().address).value(), kNow);
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code, GetParam().want) << taken.error().message;
  EXPECT_EQ(block, before) << "a refusal must change nothing";
}

constexpr RequestCase kRequestCases[] = {
    {"Held", "10.1.2.2", ErrorCode::kAddressTaken},
    {"Reserved", "10.1.2.3", ErrorCode::kAddressTaken},
    {"Cooling", "10.1.2.4", ErrorCode::kAddressTaken},
    {"Withheld", "10.1.2.5", ErrorCode::kAddressTaken},
    {"Gateway", "10.1.2.1", ErrorCode::kAddressTaken},
    {"NetworkAddress", "10.1.2.0", ErrorCode::kInvalid},
    {"Broadcast", "10.1.2.7", ErrorCode::kInvalid},
    {"OutsideTheBlock", "10.1.2.8", ErrorCode::kInvalid},
};
INSTANTIATE_TEST_SUITE_P(Table, TakeRequested, testing::ValuesIn(kRequestCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Take, GivesARequestedFreeAddress) {
  Block block = SmallBlock();
  EXPECT_EQ(Take(block, SmallPool(), EntryNumber(1), Address::Parse("10.1.2.6").value(), kNow)->ToString(), "10.1.2.6");
}

TEST(Release, OfAnUnknownAttachmentChangesNothing) {
  Block block = SmallBlock();
  EXPECT_FALSE(Release(block, AttachmentNumber(1), kNow));
}

TEST(Release, WithACooldownKeepsTheAddressUntilItIsOver) {
  Pool pool = SmallPool();
  pool.cooldown = std::chrono::seconds(30);
  Block block = NewBlock(pool, pool.subnet, "n1");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Take(block, pool, EntryNumber(i), {}, kNow));
  ASSERT_TRUE(Release(block, AttachmentNumber(2), kNow));
  EXPECT_FALSE(Take(block, pool, EntryNumber(9), {}, kNow + 29'999)) << "still cooling";
  EXPECT_TRUE(Take(block, pool, EntryNumber(9), {}, kNow + 30'000)) << "cool by now";
}

TEST(Release, WithACooldownOfOneSecondLetsTheAddressCool) {
  Pool pool = SmallPool();
  pool.cooldown = std::chrono::seconds(1);
  Block block = NewBlock(pool, pool.subnet, "n1");
  ASSERT_TRUE(Take(block, pool, EntryNumber(1), {}, kNow));
  ASSERT_TRUE(Release(block, AttachmentNumber(1), kNow));
  EXPECT_EQ(block.allocations.size(), 1U);
}

// A client with the node's token may have written the count.
TEST(Release, CountsNoMoreFreeAddressesThanTheBlockHas) {
  Block block = SmallBlock();
  ASSERT_TRUE(Take(block, SmallPool(), EntryNumber(1), {}, kNow));
  block.free = block.size();
  ASSERT_TRUE(Release(block, AttachmentNumber(1), kNow));
  EXPECT_EQ(block.free, block.size());
}

TEST(Release, FindsNoAttachmentThatAnotherPartOfAnEntryContains) {
  Block block = SmallBlock();
  HeldEntry entry = EntryNumber(1);
  entry.unknown = {"k=" + AttachmentNumber(2)};
  ASSERT_TRUE(Take(block, SmallPool(), std::move(entry), {}, kNow));
  EXPECT_FALSE(Release(block, AttachmentNumber(2), kNow));
}

TEST(Block, ANewOneIsInTheSpaceOfItsPool) {
  Pool pool = SmallPool();
  pool.space = "blue";
  EXPECT_EQ(NewBlock(pool, pool.subnet, "n1").space, "blue");
}

TEST(Touch, ChangesABlockOfAnySize) {
  Pool pool = SmallPool();
  pool.subnet = Prefix::Parse("10.1.2.9/32").value();
  pool.gateway.reset();
  Block block = NewBlock(pool, pool.subnet, "n1");
  const Block before = block;
  Touch(block);
  EXPECT_NE(block, before);
}

struct HiddenCase {
  const char* name;
  const char* text;
  bool is_hidden;
};
class EntryOfASharedBlock : public testing::TestWithParam<HiddenCase> {};

TEST_P(EntryOfASharedBlock, IsHiddenFromANodeThatMayNotFreeIt) {
  Block block = NewBlock(SmallPool(), SmallPool().subnet, "");
  block.allocations[2] = GetParam().text;
  HideEntriesOfOthers(block, "n1");
  EXPECT_EQ(block.allocations.at(2), GetParam().is_hidden ? kHiddenEntry : GetParam().text);
  EXPECT_EQ(CountFree(block, SmallPool(), kNow), 4U) << "the address stays taken";
}

constexpr HiddenCase kHiddenCases[] = {
    {"OfThisNode", "team-a/web u 0123456789ab-0000000000000001 i=eth0 t=1 n=n1", false},
    {"OfThisNodeWithMoreParts", "team-a/web u 0123456789ab-0000000000000001 i=eth0 t=1 n=n1 s=1 k=v", false},
    {"OfAnotherNode", "team-a/web u 0123456789ab-0000000000000001 i=eth0 t=1 n=n2", true},
    {"OfANodeWithALongerName", "team-a/web u 0123456789ab-0000000000000001 i=eth0 t=1 n=n12", true},
    {"OfAPodThatIsCalledLikeThisNode", "team-a/n1 u 0123456789ab-0000000000000001 i=eth0 t=1 n=n2", true},
    {"WithoutANode", "team-a/n1 u 0123456789ab-0000000000000001 i=eth0 t=1", true},
    {"ThatCannotBeParsed", "n1 n=n1 0123456789ab-0000000000000001", true},
    {"Cooling", "~ t=1700000060000 f=0123456789ab-0000000000000001", false},
    {"Reserved", "! n2", false},
};
INSTANTIATE_TEST_SUITE_P(All, EntryOfASharedBlock, testing::ValuesIn(kHiddenCases),
                         [](const auto& one) { return one.param.name; });

TEST(EntryOfANodeBlock, IsNotHidden) {
  Block block = SmallBlock();
  block.allocations[2] = "team-a/web u 0123456789ab-0000000000000001 i=eth0 t=1";
  const Block before = block;
  HideEntriesOfOthers(block, "n1");
  EXPECT_EQ(block, before);
}

}  // namespace
}  // namespace berth::ipam
