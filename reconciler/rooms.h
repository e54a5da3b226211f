// SPDX-License-Identifier: Apache-2.0
// Rooms: what the extender is told after each pass of the addresses that nodes have left (extender/choice.h).
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "extender/choice.h"
#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// A snapshot follows the last one after so long even if nothing happens: only then assumed entries end, and pods that
// wait are tried again.
inline constexpr std::chrono::seconds kRoomsPeriod{10};

struct RoomScope {
  const World& world;
  const Census& census;                             // of the same pools
  const std::map<std::string, CountedPool>& pools;  // accepted ones, by UID
  const Counts& counts;                             // with Scope::defaults
};

// Node pools count as in `counts`. A Shared pool counts for the nodes that its nodeSelector admits if it is Ready,
// enabled and has no namespaceSelector. An address outside all blocks that several pools of a space have counts for
// one.
[[nodiscard]] extender::Snapshot SnapshotOf(const RoomScope& scope);

// What the world knows of a pod that the extender has answered.
[[nodiscard]] extender::Seen SeenIn(const World& world, const std::string& key, const std::string& uid);

}  // namespace berth::reconciler
