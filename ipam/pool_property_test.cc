// SPDX-License-Identifier: Apache-2.0
// Pools compared with a simple model, which checks the rules for one address at a time.
//
// In small subnets every address is compared. In large subnets the test compares addresses at the ends of ranges and
// random addresses, and whole blocks, which have at most 256 addresses.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ipam/pool.h"
#include "ipam/seeded.h"
#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

constexpr Uint128 kSmall = 1024;  // a subnet with at most so many addresses is compared as a whole

// The rules of docs/state.md, one per line.
bool MayHandOut(const Pool& pool, Address address) {
  const auto holds = [address](const AddressRange& range) { return range.first <= address && address <= range.last; };
  if (!pool.subnet.Contains(address)) return false;
  if (!pool.ranges.empty() && std::ranges::none_of(pool.ranges, holds)) return false;
  if (std::ranges::any_of(pool.excludes, holds) || std::ranges::any_of(pool.withheld, holds)) return false;
  if (pool.gateway == address) return false;
  if (address.family() == Family::kIPv6 && address.bits() >> 32 == 0xffff) return false;
  const bool edge = address == pool.subnet.First() || address == pool.subnet.Last();
  return !edge || pool.allow_edge_addresses || pool.subnet.length() >= AddressBits(pool.family()) - 1;
}

std::vector<Address> AddressesOf(const Prefix& prefix) {
  std::vector<Address> addresses;
  for (Uint128 i = 0; i <= prefix.LastOffset(); ++i) addresses.push_back(prefix.At(i));
  return addresses;
}

bool HasAddressToHandOut(const Pool& pool, const Prefix& block) {
  return std::ranges::any_of(AddressesOf(block), [&](Address address) { return MayHandOut(pool, address); });
}

Address RandomAddress(SeededRandom& random, const Prefix& prefix) {
  const Uint128 last = prefix.LastOffset();
  const Uint128 near = std::min<Uint128>(random.Below(300), last);
  switch (random.Below(4)) {
    case 0:
      return prefix.At(near);
    case 1:
      return prefix.At(last - near);
    default:
      return prefix.At(random.Bits128() & last);
  }
}

AddressRange RandomRange(SeededRandom& random, const Prefix& prefix) {
  const Address first = RandomAddress(random, prefix);
  if (random.OneIn(4)) {
    const Address other = RandomAddress(random, prefix);
    return {std::min(first, other), std::max(first, other)};
  }
  const Uint128 room = prefix.LastOffset() - prefix.OffsetOf(first);
  return {first, prefix.At(prefix.OffsetOf(first) + std::min<Uint128>(random.Below(200), room))};
}

std::vector<AddressRange> RandomRanges(SeededRandom& random, const Prefix& prefix, std::uint64_t count_max) {
  std::vector<AddressRange> ranges(random.Below(count_max + 1));
  std::ranges::generate(ranges, [&] { return RandomRange(random, prefix); });
  return ranges;
}

Prefix RandomSubnet(SeededRandom& random) {
  const bool v4 = random.OneIn(2);
  const int length = v4 ? random.Between(16, 32) : random.Between(random.OneIn(2) ? 0 : 112, 128);
  const Uint128 bits = random.OneIn(8) ? 0 : random.OneIn(8) ? ~Uint128{0} : random.Bits128();
  return Prefix::Around(Address::FromBits(v4 ? Family::kIPv4 : Family::kIPv6, v4 ? bits & 0xffffffffU : bits), length);
}

Pool RandomPool(SeededRandom& random) {
  Pool pool;
  pool.subnet = RandomSubnet(random);
  const int bits = AddressBits(pool.family());
  // Withheld addresses may lie anywhere in the space, so some of these are outside the subnet.
  const Prefix around = Prefix::Around(pool.subnet.First(), std::max(pool.subnet.length() - 2, 0));
  if (random.OneIn(2)) pool.ranges = RandomRanges(random, pool.subnet, 4);
  pool.excludes = RandomRanges(random, pool.subnet, 6);
  pool.withheld = RandomRanges(random, around, 4);
  if (random.OneIn(2)) pool.gateway = RandomAddress(random, pool.subnet);
  if (random.OneIn(2)) pool.block_length = random.Between(bits - kBlockBitsMax, bits);
  pool.allow_edge_addresses = random.OneIn(3);
  return pool;
}

bool IsSmall(const Pool& pool) { return pool.subnet.LastOffset() < kSmall; }

// Addresses where a mistake would show: those around the ends of all ranges, and random ones.
std::vector<Address> Probes(SeededRandom& random, const Pool& pool) {
  std::vector<AddressRange> all = {AddressRange::Of(pool.subnet)};
  for (const auto* ranges : {&pool.ranges, &pool.excludes, &pool.withheld}) {
    all.insert(all.end(), ranges->begin(), ranges->end());
  }
  if (pool.gateway) all.push_back({*pool.gateway, *pool.gateway});
  std::vector<Address> probes;
  for (const AddressRange& range : all) {
    for (const Address end : {range.first, range.last}) {
      for (const int step : {-1, 0, 1}) {
        const Uint128 bits = end.bits() + static_cast<Uint128>(step);
        if (end.family() == Family::kIPv4 && bits > 0xffffffffU) continue;
        probes.push_back(Address::FromBits(end.family(), bits));
      }
    }
  }
  for (int i = 0; i < 20; ++i) probes.push_back(RandomAddress(random, pool.subnet));
  return probes;
}

std::vector<Prefix> ProbedBlocks(SeededRandom& random, const Pool& pool) {
  std::set<Prefix> blocks;
  for (const Address address : Probes(random, pool)) {
    if (pool.subnet.Contains(address)) blocks.insert(BlockOf(pool, address));
  }
  return {blocks.begin(), blocks.end()};
}

std::optional<Uint128> NumberOf(const PoolBlocks& blocks, const Prefix& block) {
  Uint128 low = 0;
  Uint128 high = blocks.Count();
  while (low < high) {
    const Uint128 middle = low + (high - low) / 2;
    if (blocks.At(middle) < block) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < blocks.Count() && blocks.At(low) == block ? std::optional(low) : std::nullopt;
}

// Blocks of this and other pools: half of them have the pool's block size, the others any allowed size.
std::vector<Prefix> RandomExisting(SeededRandom& random, const Pool& pool) {
  std::vector<Prefix> existing(random.Below(12));
  const int bits = AddressBits(pool.family());
  std::ranges::generate(existing, [&] {
    const int length = random.OneIn(2) ? pool.BlockLength() : random.Between(bits - kBlockBitsMax, bits);
    return Prefix::Around(RandomAddress(random, pool.subnet), length);
  });
  return existing;
}

bool OverlapsAny(const Prefix& block, const std::vector<Prefix>& others) {
  return std::ranges::any_of(others, [&](const Prefix& other) { return block.Overlaps(other); });
}

bool CoveredByAny(const Prefix& block, const std::vector<Prefix>& others) {
  return std::ranges::any_of(others, [&](const Prefix& other) { return other.Contains(block); });
}

TEST(PoolLaws, AssignableIsWhatTheRulesSayOfEveryAddress) {
  ForSeeds(1000, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    const IntervalSet assignable = Assignable(pool);
    for (const Address address : IsSmall(pool) ? AddressesOf(pool.subnet) : Probes(random, pool)) {
      ASSERT_EQ(assignable.Contains(address), MayHandOut(pool, address)) << address.ToString();
    }
    for (const AddressRange& range : assignable.ranges()) {
      ASSERT_TRUE(pool.subnet.Contains(range.first) && pool.subnet.Contains(range.last)) << range.ToString();
    }
  });
}

TEST(PoolLaws, AssignableInABlockIsThePartThatLiesInIt) {
  ForSeeds(500, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    const IntervalSet assignable = Assignable(pool);
    for (const Prefix& block : ProbedBlocks(random, pool)) {
      const IntervalSet in_block = AssignableIn(pool, block);
      ASSERT_EQ(in_block, assignable.Intersection(AddressRange::Of(block))) << block.ToString();
      ASSERT_EQ(!in_block.empty(), HasAddressToHandOut(pool, block)) << block.ToString();
    }
  });
}

TEST(PoolLaws, BlockOfAnAddressHoldsItAndLiesInTheSubnet) {
  ForSeeds(1000, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    const Address address = RandomAddress(random, pool.subnet);
    const Prefix block = BlockOf(pool, address);
    ASSERT_TRUE(block.Contains(address));
    ASSERT_TRUE(pool.subnet.Contains(block));
    ASSERT_EQ(block.length(), pool.BlockLength());
    ASSERT_TRUE(block.LastOffset() < 256);
  });
}

TEST(PoolLaws, BlocksOfASmallPoolAreThoseOfItsAddressesInOrder) {
  ForSeeds(1000, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    if (!IsSmall(pool)) return;
    const std::vector<Prefix> within = {Prefix::Around(RandomAddress(random, pool.subnet), pool.BlockLength()),
                                        Prefix::Around(RandomAddress(random, pool.subnet), pool.BlockLength())};
    std::set<Prefix> want_all;
    std::set<Prefix> want_within;
    for (const Address address : AddressesOf(pool.subnet)) {
      if (!MayHandOut(pool, address)) continue;
      want_all.insert(BlockOf(pool, address));
      if (within[0].Contains(address) || within[1].Contains(address)) want_within.insert(BlockOf(pool, address));
    }
    const auto list = [](const PoolBlocks& blocks) {
      std::vector<Prefix> got;
      for (Uint128 i = 0; i < blocks.Count(); ++i) got.push_back(blocks.At(i));
      return got;
    };
    ASSERT_EQ(list(PoolBlocks(pool)), std::vector(want_all.begin(), want_all.end()));
    ASSERT_EQ(list(PoolBlocks(pool, within)), std::vector(want_within.begin(), want_within.end()));
  });
}

TEST(PoolLaws, BlocksOfALargePoolAreThoseWithAnAddress) {
  ForSeeds(400, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    const PoolBlocks blocks(pool);
    for (const Prefix& block : ProbedBlocks(random, pool)) {
      ASSERT_EQ(NumberOf(blocks, block).has_value(), HasAddressToHandOut(pool, block)) << block.ToString();
    }
    if (blocks.Count() < 2) return;
    for (int i = 0; i < 10; ++i) {
      const Uint128 index = random.Below128(blocks.Count() - 1);
      const Prefix here = blocks.At(index);
      const Prefix next = blocks.At(index + 1);
      ASSERT_LT(here.Last(), next.First());
      const Uint128 gap = next.First().bits() - here.Last().bits() - 1;
      if (gap == 0) continue;
      const Address between = Address::FromBits(pool.family(), here.Last().bits() + 1 + random.Below128(gap));
      ASSERT_FALSE(HasAddressToHandOut(pool, BlockOf(pool, between))) << between.ToString();
    }
  });
}

TEST(PoolLaws, ClaimableCoversExactlyTheFreeBlocks) {
  ForSeeds(500, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    const std::vector<Prefix> existing = RandomExisting(random, pool);
    const std::vector<Prefix> claimable = Claimable(pool, existing, 0);
    std::vector<Prefix> probed = ProbedBlocks(random, pool);
    for (const Prefix& block : existing) {  // and the neighbours of `existing` in the subnet
      for (const Address edge : {block.First(), block.Last()}) {
        if (pool.subnet.Contains(edge)) probed.push_back(BlockOf(pool, edge));
      }
    }
    for (const Prefix& block : probed) {
      const bool free = HasAddressToHandOut(pool, block) && !OverlapsAny(block, existing);
      ASSERT_EQ(CoveredByAny(block, claimable), free) << block.ToString();
    }
    for (const Prefix& prefix : claimable) {
      ASSERT_LE(prefix.length(), pool.BlockLength()) << prefix.ToString();
      ASSERT_FALSE(OverlapsAny(prefix, existing)) << prefix.ToString();
      const Prefix block = BlockOf(pool, RandomAddress(random, prefix));
      ASSERT_TRUE(HasAddressToHandOut(pool, block)) << block.ToString();
    }
  });
}

TEST(PoolLaws, ClaimableWithALimitKeepsTheLargestInOrder) {
  ForSeeds(500, [](SeededRandom& random) {
    const Pool pool = RandomPool(random);
    const std::vector<Prefix> existing = RandomExisting(random, pool);
    std::vector<Prefix> all = Claimable(pool, existing, 0);
    const std::size_t limit = 1 + random.Below(20);
    const std::vector<Prefix> some = Claimable(pool, existing, limit);
    ASSERT_TRUE(std::ranges::is_sorted(some));
    ASSERT_EQ(some.size(), std::min(limit, all.size()));
    ASSERT_TRUE(std::ranges::includes(all, some));
    int longest_kept = 0;
    for (const Prefix& prefix : some) longest_kept = std::max(longest_kept, prefix.length());
    for (const Prefix& prefix : all) {
      if (!std::ranges::binary_search(some, prefix)) {
        ASSERT_GE(prefix.length(), longest_kept) << prefix.ToString();
      }
    }
  });
}

TEST(PoolLaws, AValidPoolHasABlock) {
  ForSeeds(1000, [](SeededRandom& random) {
    Pool pool = RandomPool(random);
    pool.withheld.clear();
    if (Validate(pool)) {
      ASSERT_TRUE(PoolBlocks(pool).Count() > 0);
    }
  });
}

}  // namespace
}  // namespace berth::ipam
