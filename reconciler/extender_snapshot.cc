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

// More addresses than all pods of a cluster can need; sums of this limit do not overflow.
constexpr std::int64_t kLeftMax = std::int64_t{1} << 40;

// nullptr unless the pool is a Shared pool that counts.
const ipam::Pool* SharedPoolOf(const SeenPool& seen) {
  const bool counts = seen.pool && seen.pool->affinity == ipam::Affinity::kShared && !seen.pool->resource.empty() &&
                      !seen.pool->namespace_selector && !seen.pool->disabled && !seen.meta.deleting() && seen.IsReady();
  return counts ? &*seen.pool : nullptr;
}

// The number of the pool's free addresses, without unclaimed addresses that are also in a pool of `others`.
ipam::Uint128 FreeBeside(const std::vector<const ipam::Pool*>& others, const ipam::Pool& pool, const Census& census) {
  ipam::IntervalSet unclaimed = census.UnclaimedOf(pool.uid);
  const ipam::Uint128 before = unclaimed.Count();
  for (const ipam::Pool* other : others) {
    if (other->space == pool.space && other->subnet.Overlaps(pool.subnet))
      unclaimed.Subtract(census.UnclaimedOf(other->uid));
  }
  return census.OfPool(pool.uid).free - (before - unclaimed.Count());
}

}  // namespace

extender::Snapshot SnapshotOf(const SnapshotScope& scope) {
  extender::Snapshot snapshot;
  std::vector<const ipam::Pool*> shared;
  for (const auto& [name, seen] : scope.world.pools) {
    const ipam::Pool* const pool = SharedPoolOf(seen);
    if (pool == nullptr || !scope.pools.contains(pool->uid)) continue;
    const auto free = std::min<ipam::Uint128>(FreeBeside(shared, *pool, scope.census), kLeftMax);
    snapshot.shared.push_back({.resource = pool->resource, .free = static_cast<std::int64_t>(free)});
    shared.push_back(pool);
  }
  for (const auto& [name, node] : scope.world.nodes.all()) {
    extender::NodeRoom& room = snapshot.nodes[name];
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const auto& selector = shared[i]->node_selector;
      if (selector && !selector->Matches(node.labels)) continue;
      room.shared.push_back(i);
      room.left.try_emplace(shared[i]->resource, 0);
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
