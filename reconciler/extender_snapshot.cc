// SPDX-License-Identifier: Apache-2.0
// Computes the snapshot from tallies and Shared pools.
#include "reconciler/extender_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ipam/interval_set.h"

namespace berth::reconciler {

namespace {

// More addresses than all pods of a cluster can need. The limit keeps sums from overflowing.
constexpr std::int64_t kLeftMax = std::int64_t{1} << 40;

// nullptr unless the pool is a Shared pool that counts.
const ipam::Pool* SharedPoolOf(const SeenPool& seen) {
  const bool counts = seen.pool && seen.pool->affinity == ipam::Affinity::kShared && !seen.pool->resource.empty() &&
                      !seen.pool->namespace_selector && !seen.pool->disabled && !seen.meta.deleting() && seen.IsReady();
  return counts ? &*seen.pool : nullptr;
}

// Addresses that a node counts if one of the pools serves it.
struct Part {
  std::vector<std::size_t> pools;  // indexes; all have one space and one resource
  ipam::IntervalSet unclaimed;     // unclaimed addresses that are in all of these pools, and in no other such pool
  ipam::Uint128 in_blocks = 0;     // free addresses of blocks, which belong to one pool

  [[nodiscard]] std::int64_t Free() const {
    return static_cast<std::int64_t>(std::min<ipam::Uint128>(in_blocks + unclaimed.Count(), kLeftMax));
  }
};

// Divides the pools' free addresses, so that an address of several pools is in one part only.
std::vector<Part> PartsOf(const std::vector<const ipam::Pool*>& pools, const Census& census) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const ipam::Pool& pool = *pools[i];
    Part own{.pools = {i}, .unclaimed = census.UnclaimedOf(pool.uid)};
    own.in_blocks = census.OfPool(pool.uid).free - own.unclaimed.Count();
    const std::size_t before = parts.size();
    for (std::size_t k = 0; k < before; ++k) {
      const ipam::Pool& other = *pools[parts[k].pools.front()];
      if (other.space != pool.space || other.resource != pool.resource || !other.subnet.Overlaps(pool.subnet)) continue;
      Part common{.pools = parts[k].pools, .unclaimed = parts[k].unclaimed.Intersection(own.unclaimed)};
      if (common.unclaimed.empty()) continue;
      parts[k].unclaimed.Subtract(common.unclaimed);
      own.unclaimed.Subtract(common.unclaimed);
      common.pools.push_back(i);
      parts.push_back(std::move(common));
    }
    // Keep a pool's own part even if it is empty, because the pool still serves its nodes.
    std::erase_if(parts, [](const Part& part) { return part.pools.size() > 1 && part.unclaimed.empty(); });
    parts.push_back(std::move(own));
  }
  return parts;
}

}  // namespace

extender::Snapshot SnapshotOf(const SnapshotScope& scope) {
  extender::Snapshot snapshot;
  std::vector<const ipam::Pool*> shared;
  for (const auto& [name, seen] : scope.world.pools) {
    const ipam::Pool* const pool = SharedPoolOf(seen);
    if (pool != nullptr && scope.pools.contains(pool->uid)) shared.push_back(pool);
  }
  const std::vector<Part> parts = PartsOf(shared, scope.census);
  for (const Part& part : parts) {
    snapshot.shared.push_back({.resource = shared[part.pools.front()]->resource, .free = part.Free()});
  }
  for (const auto& [name, node] : scope.world.nodes.all()) {
    extender::NodeRoom& room = snapshot.nodes[name];
    std::vector<bool> serves;
    for (const ipam::Pool* pool : shared)
      serves.push_back(!pool->node_selector || pool->node_selector->Matches(node.labels));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (std::ranges::none_of(parts[i].pools, [&](std::size_t pool) { return serves[pool]; })) continue;
      room.shared.push_back(i);
      room.left.try_emplace(snapshot.shared[i].resource, 0);
    }
    for (const auto& [resource, tally] : scope.counts.Of(name)) {
      if (tally.is_counted || room.left.contains(resource))
        room.left[resource] = std::clamp(tally.Left(), -kLeftMax, kLeftMax);
    }
  }
  return snapshot;
}

extender::Seen SeenIn(const World& world, const std::string& key, const std::string& uid) {
  const SeenPod* const pod = world.pods.Find(key);
  // Somebody may have created the pod again with the same name, and the world may still show the previous pod.
  if (pod == nullptr || pod->uid != uid) return extender::Seen::kUnknown;
  const bool is_settled = !pod->node.empty() || pod->is_terminal;
  return is_settled ? extender::Seen::kSettled : extender::Seen::kWaiting;
}

}  // namespace berth::reconciler
