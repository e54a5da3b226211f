// SPDX-License-Identifier: Apache-2.0
// Collects what is withheld, and fits it into the limits of the CRDs.
#include "reconciler/withheld.h"

#include <algorithm>

#include "base/check.h"

namespace berth::reconciler {

namespace {

const SeenPool* FindPool(const World& world, const crds::AcceptedPool& entry) {
  const auto found = world.pools.find(entry.pool);
  return found == world.pools.end() || found->second.meta.uid != entry.uid ? nullptr : &found->second;
}

}  // namespace

std::vector<ReservedRange> ReservedRanges(const World& world, const std::string& space, std::int64_t now_ms) {
  std::vector<ReservedRange> ranges;
  for (const auto& [name, reservation] : world.reservations) {
    if (reservation.space != space || reservation.IsExpired(now_ms)) continue;
    for (const ipam::AddressRange& range : reservation.addresses) ranges.push_back({range, name});
  }
  return ranges;
}

std::optional<std::int64_t> NextExpiry(const World& world, std::int64_t now_ms) {
  std::optional<std::int64_t> next;
  for (const auto& [name, reservation] : world.reservations) {
    if (!reservation.expires_ms || reservation.IsExpired(now_ms)) continue;
    next = std::min(next.value_or(*reservation.expires_ms), *reservation.expires_ms);
  }
  return next;
}

bool MayStopWithholding(const World& world, const std::string& space, const std::vector<crds::AcceptedPool>& accepted) {
  const bool all_reservations = std::ranges::none_of(
      world.reservations, [&](const auto& item) { return item.second.space == space && !item.second.problem.empty(); });
  return all_reservations && std::ranges::none_of(accepted, [&](const crds::AcceptedPool& entry) {
           const SeenPool* pool = FindPool(world, entry);
           return pool != nullptr && !pool->pool;
         });
}

ipam::IntervalSet WithheldSet(const World& world, const std::vector<crds::AcceptedPool>& accepted,
                              const std::vector<ReservedRange>& reserved) {
  std::vector<ipam::AddressRange> ranges;
  ranges.reserve(reserved.size() + accepted.size());
  for (const ReservedRange& item : reserved) ranges.push_back(item.range);
  for (const crds::AcceptedPool& entry : accepted) {
    const SeenPool* pool = FindPool(world, entry);
    if (pool == nullptr || !pool->pool || !pool->pool->gateway) continue;
    ranges.push_back({*pool->pool->gateway, *pool->pool->gateway});
  }
  ipam::IntervalSet withheld(ranges);
  // No pool gives IPv4-mapped addresses to pods, and a range that ends with such an address cannot be parsed.
  withheld.Subtract(ipam::IPv4Mapped());
  return withheld;
}

std::vector<ipam::AddressRange> AtMost(const ipam::IntervalSet& set, std::size_t limit) {
  BERTH_CHECK(limit >= 2);
  const std::vector<ipam::AddressRange>& ranges = set.ranges();
  if (ranges.size() <= limit) return ranges;
  struct Gap {
    ipam::Uint128 size;
    std::size_t before;  // index of the range after the gap
  };
  std::vector<Gap> gaps;
  gaps.reserve(ranges.size());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i - 1].last.family() != ranges[i].first.family()) continue;
    gaps.push_back({.size = ranges[i].first.bits() - ranges[i - 1].last.bits(), .before = i});
  }
  const std::size_t excess = std::min(gaps.size(), ranges.size() - limit);
  std::ranges::stable_sort(gaps, {}, &Gap::size);
  std::vector<bool> closed(ranges.size(), false);
  for (std::size_t i = 0; i < excess; ++i) closed[gaps[i].before] = true;
  std::vector<ipam::AddressRange> joined;
  joined.reserve(limit);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (closed[i]) {
      joined.back().last = ranges[i].last;
    } else {
      joined.push_back(ranges[i]);
    }
  }
  return joined;
}

}  // namespace berth::reconciler
