// SPDX-License-Identifier: Apache-2.0
// Reservations inside blocks: an entry "! <reservation>" where an address that is kept for somebody has no other.
//
// An address that a pod holds stays the pod's; the entry follows when it is given back. Before entries can be called
// complete, the pools must say what is withheld, and then every block that exists must have been looked at, and have
// none of it on standby: whoever made one later reads the pool before he hands out from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// What `reserved` (of the block's space) changes in a block. `pool` is the block's, for the count of free addresses.
// With `may_remove` false, no entry of a reservation is taken away or replaced by another's.
struct ReservedChange {
  std::optional<ipam::Block> after;     // unset: the block is as it should be
  bool wants_removal = false;           // something is there that only may_remove takes away
  std::optional<std::int64_t> next_ms;  // an address that is kept is still cooling: look again then
  bool awaits_standby = false;          // an address that is kept is on standby: its node's agent may give it yet
};
[[nodiscard]] ReservedChange WithReserved(const ipam::Block& block, const ipam::Pool& pool,
                                          const std::vector<ReservedRange>& reserved, std::int64_t now_ms,
                                          bool may_remove);

// One space.
struct ReservedSpace {
  std::string space;
  std::vector<ReservedRange> reserved;
  bool may_give_up = true;      // see MayGiveUp
  bool pools_withhold = false;  // every accepted pool's status says what is withheld from it, as far as the world knows
};

// What a decision about one space rests on.
struct ReservedScope {
  const World& world;
  const Memory& memory;
  const std::map<std::string, ipam::Pool>& pools;  // those whose blocks are changed, by UID
  const Moment& now;
  bool relisted = false;
};

// Changes of blocks, and what is confirmed.
void DecideReserved(const ReservedScope& scope, const ReservedSpace& space, Decision& decision);

}  // namespace berth::reconciler
