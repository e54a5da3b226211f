// SPDX-License-Identifier: Apache-2.0
// Pool: its assignable addresses, and the block of each address.
#include "ipam/pool.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace berth::ipam {

namespace {

// Appends the part of `range` that lies in `bounds`. Most ranges and excludes of a pool do not overlap a given block,
// and cost no more than this check.
void AppendCommon(std::vector<AddressRange>& list, const AddressRange& range, const AddressRange& bounds) {
  const AddressRange common{std::max(range.first, bounds.first), std::min(range.last, bounds.last)};
  if (common.first <= common.last) list.push_back(common);
}

void AppendCommon(std::vector<AddressRange>& list, std::span<const AddressRange> ranges, const AddressRange& bounds) {
  for (const AddressRange& range : ranges) AppendCommon(list, range, bounds);
}

bool HasEdges(const Pool& pool) { return !pool.allow_edge_addresses && pool.subnet.LastOffset() > 1; }

// One pass over ranges, excludes and withheld addresses; copies and sorts only those that overlap `bounds`.
IntervalSet AssignableWithin(const Pool& pool, const AddressRange& bounds) {
  std::vector<AddressRange> offered;
  if (pool.ranges.empty()) {
    offered.push_back(bounds);
  } else {
    AppendCommon(offered, pool.ranges, bounds);
  }
  std::vector<AddressRange> taken;
  AppendCommon(taken, pool.excludes, bounds);
  AppendCommon(taken, pool.withheld, bounds);
  if (pool.gateway) AppendCommon(taken, {*pool.gateway, *pool.gateway}, bounds);
  if (HasEdges(pool)) {
    AppendCommon(taken, {pool.subnet.First(), pool.subnet.First()}, bounds);
    AppendCommon(taken, {pool.subnet.Last(), pool.subnet.Last()}, bounds);
  }
  if (pool.family() == Family::kIPv6) AppendCommon(taken, IPv4Mapped(), bounds);

  IntervalSet assignable(offered);
  assignable.Subtract(IntervalSet(taken));
  return assignable;
}

}  // namespace

AddressRange IPv4Mapped() {
  constexpr int kMarkEnd = 96;
  return AddressRange::Of(Prefix::Around(Address::FromBits(Family::kIPv6, kIPv4MappedMark << 32), kMarkEnd));
}

int Pool::BlockLength() const {
  const int bits = AddressBits(family());
  const int wanted = std::max(block_length.value_or(bits - kDefaultBlockBits), subnet.length());
  return std::clamp(wanted, bits - kBlockBitsMax, bits);
}

IntervalSet Assignable(const Pool& pool) { return AssignableWithin(pool, AddressRange::Of(pool.subnet)); }

IntervalSet AssignableIn(const Pool& pool, const Prefix& block) {
  if (pool.subnet.Contains(block)) return AssignableWithin(pool, AddressRange::Of(block));
  return block.Contains(pool.subnet) ? Assignable(pool) : IntervalSet();
}

Prefix BlockOf(const Pool& pool, Address address) {
  BERTH_CHECK(pool.subnet.Contains(address));
  return Prefix::Around(address, pool.BlockLength());
}

}  // namespace berth::ipam
