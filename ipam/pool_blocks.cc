// SPDX-License-Identifier: Apache-2.0
// PoolBlocks and Claimable: the blocks of a pool as runs of adjacent blocks, so that 2^122 blocks cost as little as
// two.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "ipam/pool.h"

namespace berth::ipam {

namespace {

// Extends each interval to whole blocks.
IntervalSet WholeBlocks(const IntervalSet& addresses, int block_length) {
  std::vector<AddressRange> widened;
  widened.reserve(addresses.ranges().size());
  for (const AddressRange& range : addresses.ranges()) {
    widened.push_back(
        {Prefix::Around(range.first, block_length).First(), Prefix::Around(range.last, block_length).Last()});
  }
  return IntervalSet(widened);
}

IntervalSet SetOf(const std::vector<Prefix>& prefixes) {
  std::vector<AddressRange> ranges;
  ranges.reserve(prefixes.size());
  for (const Prefix& prefix : prefixes) ranges.push_back(AddressRange::Of(prefix));
  return IntervalSet(ranges);
}

// Keeps the `limit` largest prefixes, in their order.
void KeepLargest(std::vector<Prefix>& prefixes, std::size_t limit) {
  if (limit == 0 || prefixes.size() <= limit) return;
  std::ranges::nth_element(
      prefixes, prefixes.begin() + static_cast<std::ptrdiff_t>(limit), {}, [](const Prefix& prefix) {
        return std::tuple(prefix.length(), prefix.First());
      });
  prefixes.resize(limit);
  std::ranges::sort(prefixes);
}

}  // namespace

PoolBlocks::PoolBlocks(const Pool& pool) {
  Fill(WholeBlocks(Assignable(pool), pool.BlockLength()), pool.BlockLength());
}

PoolBlocks::PoolBlocks(const Pool& pool, const std::vector<Prefix>& within) {
  Fill(WholeBlocks(Assignable(pool).Intersection(SetOf(within)), pool.BlockLength()), pool.BlockLength());
}

void PoolBlocks::Fill(const IntervalSet& whole_blocks, int block_length) {
  runs_.reserve(whole_blocks.ranges().size());
  for (const AddressRange& range : whole_blocks.ranges()) {
    const int host_bits = AddressBits(range.first.family()) - block_length;
    BERTH_CHECK(host_bits >= 0);
    const Uint128 last = (range.last.bits() - range.first.bits()) >> host_bits;  // number of the run's blocks minus 1
    runs_.push_back({.first = Prefix::Around(range.first, block_length), .index = count_});
    count_ = last >= ~Uint128{0} - count_ ? ~Uint128{0} : count_ + last + 1;
  }
}

Prefix PoolBlocks::At(Uint128 index) const {
  BERTH_CHECK(index < count_);
  const auto after = std::ranges::partition_point(runs_, [index](const Run& run) { return run.index <= index; });
  const Run& run = *(after - 1);
  const int host_bits = AddressBits(run.first.family()) - run.first.length();
  const Uint128 bits = run.first.First().bits() + ((index - run.index) << host_bits);
  return Prefix::Around(Address::FromBits(run.first.family(), bits), run.first.length());
}

std::vector<Prefix> Claimable(const Pool& pool, const std::vector<Prefix>& existing, std::size_t limit) {
  const int block_length = pool.BlockLength();
  IntervalSet free = WholeBlocks(Assignable(pool), block_length);
  std::vector<AddressRange> taken;
  taken.reserve(existing.size());
  for (const Prefix& block : existing) {
    if (!block.Overlaps(pool.subnet)) continue;
    // If a smaller block of another pool lies in a block of this pool, nobody can claim this pool's block.
    taken.push_back(AddressRange::Of(Prefix::Around(block.First(), std::min(block.length(), block_length))));
  }
  free.Subtract(IntervalSet(taken));
  std::vector<Prefix> prefixes = free.ToPrefixes();
  KeepLargest(prefixes, limit);
  return prefixes;
}

}  // namespace berth::ipam
