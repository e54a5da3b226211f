// SPDX-License-Identifier: Apache-2.0
// The snapshot for the extender: what the controller tells the extender after each pass about the addresses that nodes
// have left (extender/choice.h).
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "extender/choice.h"
#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// A snapshot follows the last one after at most this time, even if nothing happens: the extender forgets assumed pods,
// and wakes the scheduler for waiting pods, only when it gets a snapshot.
inline constexpr std::chrono::seconds kSnapshotPeriod{10};

struct SnapshotScope {
  const World& world;
  const Census& census;                             // counts of the same pools
  const std::map<std::string, CountedPool>& pools;  // the accepted pools, by UID
  const Counts& counts;                             // updated with Counts::Scope::defaults
};

// A pool with affinity Node counts as in `counts`. A pool with affinity Shared counts for the nodes that its
// nodeSelector admits, if the pool is Ready, enabled and without a namespaceSelector. If several pools of one space and
// resource have the same address, a node counts the address once.
[[nodiscard]] extender::Snapshot SnapshotOf(const SnapshotScope& scope);

// The state in the world of a pod for which the extender has chosen nodes.
[[nodiscard]] extender::Seen SeenIn(const World& world, const std::string& key, const std::string& uid);

}  // namespace berth::reconciler
