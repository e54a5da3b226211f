// SPDX-License-Identifier: Apache-2.0
// Census: its counts equal a count of every single address, whatever changes led to the world.
#include "reconciler/census.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

// Counts address by address, from nothing.
struct Naive {
  std::size_t total = 0;
  std::size_t used = 0;
  std::size_t free = 0;
};

bool IsInBlock(const World& world, const std::string& space, ipam::Address address) {
  for (const auto& [name, block] : world.blocks()) {
    if (block.space == space && block.cidr.Contains(address)) return true;
  }
  return false;
}

Naive CountNaively(const World& world, const std::vector<ipam::Pool>& pools, const std::string& space,
                   std::int64_t now_ms) {
  Naive counts;
  std::set<ipam::Address> assignable;
  for (const ipam::Pool& pool : pools) {
    const ipam::IntervalSet of_pool = ipam::Assignable(pool);
    for (const ipam::AddressRange& range : of_pool.ranges()) {
      const auto count = range.last.bits() - range.first.bits();
      for (ipam::Uint128 i = 0; i <= count; ++i) {
        assignable.insert(ipam::Address::FromBits(range.first.family(), range.first.bits() + i));
      }
    }
  }
  counts.total = assignable.size();
  for (const ipam::Address address : assignable) {
    if (!IsInBlock(world, space, address)) ++counts.free;
  }
  for (const auto& [name, seen] : world.blocks()) {
    for (const ipam::Pool& pool : pools) {
      if (seen.pool_uid != pool.uid) continue;
      counts.used += seen.entries.held;
      for (ipam::BlockOffset offset = 0; offset < seen.block->size(); ++offset) {
        if (!ipam::Assignable(pool).Contains(seen.cidr.At(offset))) continue;
        const auto entry = seen.block->allocations.find(offset);
        const auto until =
            entry == seen.block->allocations.end() ? 0 : ipam::CoolingUntil(entry->second, now_ms).value_or(now_ms + 1);
        if (until <= now_ms) ++counts.free;
      }
    }
  }
  return counts;
}

class CensusProperty : public testing::TestWithParam<unsigned> {};

TEST_P(CensusProperty, AgreesWithCountingEveryAddress) {
  std::mt19937 random(GetParam());
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  TestWorld t;
  Census census;
  std::int64_t now_ms = kTestNowMs;
  const std::vector<std::string> names = {"a", "b", "c"};
  const std::vector<std::string> subnets = {"10.55.0.0/24", "10.55.0.0/25", "10.66.0.0/28"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    t.Pool(names[i], {{"subnet", subnets[i]}, {"blockSize", 28}, {"exclude", {subnets[i].substr(0, 8) + "7"}}});
  }
  std::vector<std::string> withheld;
  for (int step = 0; step < 60; ++step) {
    const std::string cidr = below(8) == 0 ? "10.66.0.0/28" : "10.55.0." + std::to_string(16 * below(16)) + "/28";
    const std::string name = ipam::BlockName("default", ipam::PrefixOf(cidr));
    switch (below(5)) {
      case 0:
        t.world.RemoveBlock(name);
        break;
      case 1:
        now_ms += below(3000);
        break;
      case 2:
        withheld = {"10.55.0." + std::to_string(below(256))};
        break;
      default: {
        std::map<ipam::BlockOffset, std::string> entries;
        for (ipam::BlockOffset offset = 0; offset < 16; ++offset) {
          const unsigned kind = below(5);
          if (kind == 0) entries[offset] = kHeldEntry;
          if (kind == 1) entries[offset] = "~ t=" + std::to_string(now_ms + below(4000));
          if (kind == 1 && below(8) == 0) entries[offset] = "~ t=9223372036854775807";
          if (kind == 2) entries[offset] = "! r";
          if (kind == 3 && below(8) == 0) entries[offset] = "?";
        }
        t.Block(cidr, cidr.starts_with("10.66") ? "c" : names[below(2)], entries);
      }
    }
    std::map<std::string, CountedPool> pools;
    std::vector<ipam::Pool> all;
    for (const auto& [pool_name, seen] : t.world.pools) {
      CountedPool counted{.pool = *seen.pool, .generation = 1};
      for (const std::string& text : withheld) counted.pool.withheld.push_back(ipam::RangeOf(text));
      all.push_back(counted.pool);
      pools.emplace(seen.meta.uid, std::move(counted));
    }
    census.Take(t.world, pools, now_ms);
    const Naive space = CountNaively(t.world, all, "default", now_ms);
    const SpaceCounts got = census.OfSpace("default");
    ASSERT_EQ(got.total, space.total) << "step " << step;
    ASSERT_EQ(got.free, space.free) << "step " << step;
    for (const ipam::Pool& pool : all) {
      const Naive want = CountNaively(t.world, {pool}, "default", now_ms);
      const PoolCounts& counts = census.OfPool(pool.uid);
      ASSERT_EQ(counts.total, want.total) << "step " << step << " pool " << pool.name;
      ASSERT_EQ(counts.used, want.used) << "step " << step << " pool " << pool.name;
      ASSERT_EQ(counts.free, want.free) << "step " << step << " pool " << pool.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, CensusProperty, testing::Range(1U, 9U));

TEST(Census, CountsAlsoAVeryLargePool) {
  TestWorld t;
  t.Pool("six", {{"subnet", "::/0"}});
  Census census;
  census.Take(t.world, {{"uid-of-six", {.pool = *t.world.pools.at("six").pool, .generation = 1}}}, kTestNowMs);
  // All addresses but the first, the last, and the 2^32 IPv4-mapped ones.
  EXPECT_EQ(ipam::ToString(census.OfPool("uid-of-six").total), "340282366920938463463374607427473244158");
}

TEST(Census, CountsNoUnclaimedBlockIfThereAreMoreBlocksThanFitIntoThePool) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/26"}}).Block("10.55.0.1/32", "web", {}).Block("10.55.0.2/32", "web", {});
  Census census;
  census.Take(t.world, {{"uid-of-web", {.pool = *t.world.pools.at("web").pool, .generation = 1}}}, kTestNowMs);
  EXPECT_EQ(ipam::ToString(census.OfPool("uid-of-web").blocks_unclaimed), "0");
}

TEST(Census, CountsABlockThatCannotBeReadAsClaimedWithoutFreeAddresses) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}}).UnreadableBlock("10.55.0.64-26", "uid-of-web");
  Census census;
  census.Take(t.world, {{"uid-of-web", {.pool = *t.world.pools.at("web").pool, .generation = 1}}}, kTestNowMs);
  EXPECT_EQ(census.OfPool("uid-of-web").blocks, 1);
  EXPECT_EQ(census.OfPool("uid-of-web").free, 190U);
}

TEST(AcceptedPools, AreReadableAndInTheSpacesListAndHaveTheirWithheldAddresses) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}}, {.withheld = {"10.55.0.7"}}).Pool("db", {{"subnet", "10.66.0.0/24"}});
  t.Pool("odd", {{"subnet", "nonsense"}}).Space("default", {"web"});
  const auto accepted = AcceptedPools(t.world);
  ASSERT_EQ(accepted.size(), 1U);
  EXPECT_EQ(accepted.at("uid-of-web").pool.withheld.size(), 1U);
  t.world.spaces.clear();
  EXPECT_TRUE(AcceptedPools(t.world).empty());
}

TEST(ReadSpace, KeepsWhyASpaceCannotBeRead) {
  const auto space = ReadSpace({{"metadata", {{"name", "default"}}}, {"status", {{"accepted", 5}}}}).value();
  EXPECT_TRUE(IsUnreadable(space));
  EXPECT_NE(space.problem, "");
}

}  // namespace
}  // namespace berth::reconciler
