// SPDX-License-Identifier: Apache-2.0
// PoolBlocks and Claimable: examples of which blocks a pool has, and which of them are unclaimed.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ipam/pool.h"
#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Pool BarePool(const char* subnet) {
  Pool pool;
  pool.subnet = PrefixOf(subnet);
  return pool;
}

std::vector<std::string> Texts(const PoolBlocks& blocks) {
  std::vector<std::string> texts;
  for (Uint128 i = 0; i < blocks.Count(); ++i) texts.push_back(blocks.At(i).ToString());
  return texts;
}

std::vector<std::string> PrefixTexts(const std::vector<Prefix>& prefixes) {
  std::vector<std::string> texts;
  for (const Prefix& prefix : prefixes) texts.push_back(prefix.ToString());
  return texts;
}

TEST(PoolBlocks, AreCutFromTheSubnet) {
  EXPECT_THAT(Texts(PoolBlocks(BarePool("10.55.0.0/24"))),
              ElementsAre("10.55.0.0/26", "10.55.0.64/26", "10.55.0.128/26", "10.55.0.192/26"));
}

TEST(PoolBlocks, OfASmallSubnetIsOne) {
  EXPECT_THAT(Texts(PoolBlocks(BarePool("10.55.0.8/29"))), ElementsAre("10.55.0.8/29"));
  EXPECT_THAT(Texts(PoolBlocks(BarePool("2001:db8::9/128"))), ElementsAre("2001:db8::9/128"));
}

TEST(PoolBlocks, WithoutAnAssignableAddressAreLeftOut) {
  Pool pool = BarePool("10.55.0.0/24");
  pool.excludes = {RangeOf("10.55.0.60-10.55.0.130")};
  EXPECT_THAT(Texts(PoolBlocks(pool)), ElementsAre("10.55.0.0/26", "10.55.0.128/26", "10.55.0.192/26"));
}

TEST(PoolBlocks, OfSingleAddressesLeaveOutTheEdges) {
  Pool pool = BarePool("10.55.0.0/30");
  pool.block_length = 32;
  EXPECT_THAT(Texts(PoolBlocks(pool)), ElementsAre("10.55.0.1/32", "10.55.0.2/32"));
}

TEST(PoolBlocks, SharedByTwoRangesAreCountedOnce) {
  Pool pool = BarePool("10.55.0.0/24");
  pool.ranges = {RangeOf("10.55.0.10"), RangeOf("10.55.0.20"), RangeOf("10.55.0.63-10.55.0.64")};
  EXPECT_THAT(Texts(PoolBlocks(pool)), ElementsAre("10.55.0.0/26", "10.55.0.64/26"));
}

TEST(PoolBlocks, WithinPrefixesAreThoseInThem) {
  const Pool pool = BarePool("10.55.0.0/24");
  EXPECT_THAT(Texts(PoolBlocks(pool, {PrefixOf("10.55.0.192/26"), PrefixOf("10.55.0.0/26")})),
              ElementsAre("10.55.0.0/26", "10.55.0.192/26"));
  EXPECT_THAT(Texts(PoolBlocks(pool, {PrefixOf("10.55.1.0/24"), PrefixOf("2001:db8::/64")})), IsEmpty());
  EXPECT_THAT(Texts(PoolBlocks(pool, {})), IsEmpty());
}

TEST(PoolBlocks, OfAllIPv6CanBeCountedAndReached) {
  const PoolBlocks blocks(BarePool("::/0"));
  // 2^26 blocks contain only IPv4-mapped addresses.
  EXPECT_EQ(ToString(blocks.Count()), ToString((Uint128{1} << 122) - (1 << 26)));
  EXPECT_EQ(blocks.At(0).ToString(), "::/122");
  EXPECT_EQ(blocks.At(blocks.Count() - 1).ToString(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0/122");
}

TEST(PoolBlocks, OfAllIPv6AsSingleAddressesStillFitTheCount) {
  Pool pool = BarePool("::/0");
  pool.block_length = 128;
  pool.allow_edge_addresses = true;
  const PoolBlocks blocks(pool);
  EXPECT_EQ(ToString(blocks.Count()), ToString(~Uint128{0} - 0xffffffffU));
  EXPECT_EQ(blocks.At(blocks.Count() - 1).ToString(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128");
}

TEST(PoolBlocksDeathTest, RefuseANumberBeyondTheLast) {
  EXPECT_DEATH((void)PoolBlocks(BarePool("10.55.0.0/24")).At(4), "check failed");
}

TEST(Claimable, OfAnEmptyPoolIsItsSubnet) {
  EXPECT_THAT(PrefixTexts(Claimable(BarePool("10.55.0.0/16"), {}, 64)), ElementsAre("10.55.0.0/16"));
  EXPECT_THAT(PrefixTexts(Claimable(BarePool("2001:db8::/48"), {}, 64)), ElementsAre("2001:db8::/48"));
}

TEST(Claimable, LeavesOutExistingBlocks) {
  EXPECT_THAT(PrefixTexts(Claimable(BarePool("10.55.0.0/24"), {PrefixOf("10.55.0.64/26")}, 64)),
              ElementsAre("10.55.0.0/26", "10.55.0.128/25"));
}

TEST(Claimable, LeavesOutABlockInWhichASmallerOneLies) {
  EXPECT_THAT(PrefixTexts(Claimable(BarePool("10.55.0.0/24"), {PrefixOf("10.55.0.70/32")}, 64)),
              ElementsAre("10.55.0.0/26", "10.55.0.128/25"));
}

TEST(Claimable, LeavesOutEveryBlockOfALargerOne) {
  EXPECT_THAT(PrefixTexts(Claimable(BarePool("10.55.0.0/23"), {PrefixOf("10.55.0.0/24")}, 64)),
              ElementsAre("10.55.1.0/24"));
  EXPECT_THAT(Claimable(BarePool("10.55.0.0/29"), {PrefixOf("10.55.0.0/24")}, 64), IsEmpty());
}

TEST(Claimable, IgnoresBlocksElsewhere) {
  EXPECT_THAT(
      PrefixTexts(Claimable(BarePool("10.55.0.0/24"), {PrefixOf("10.55.1.0/26"), PrefixOf("2001:db8::/122")}, 64)),
      ElementsAre("10.55.0.0/24"));
}

TEST(Claimable, OfAFullPoolIsNothing) {
  EXPECT_THAT(Claimable(BarePool("10.55.0.0/25"), {PrefixOf("10.55.0.64/26"), PrefixOf("10.55.0.0/26")}, 64),
              IsEmpty());
}

TEST(Claimable, KeepsTheLargestWhenThereAreTooMany) {
  const std::vector<Prefix> existing = {PrefixOf("10.55.0.64/26")};  // claimable: a /26, a /25, a /24 and a /23
  EXPECT_THAT(PrefixTexts(Claimable(BarePool("10.55.0.0/22"), existing, 2)),
              ElementsAre("10.55.1.0/24", "10.55.2.0/23"));
  EXPECT_THAT(Claimable(BarePool("10.55.0.0/22"), existing, 0), testing::SizeIs(4));
}

}  // namespace
}  // namespace berth::ipam
