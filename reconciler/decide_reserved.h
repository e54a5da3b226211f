// SPDX-License-Identifier: Apache-2.0
// Reservations in blocks: the controller writes an entry "! <reservation>" for each reserved address that has no other
// entry.
//
// A pod that holds a reserved address keeps it. The controller writes the reserved entry when the address is freed. A
// node that creates a block reads the pool before it gives addresses of the block, and the pool withholds reserved
// addresses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// How reservations change one block.
struct ReservedChange {
  std::optional<ipam::Block> after;     // nothing: the block is as it should be
  bool wants_removal = false;           // with may_remove, an entry would be removed
  std::optional<std::int64_t> next_ms;  // first UNIX time (ms) at which a reserved address has cooled
};
// `pool`: the block's pool, for the count of free addresses. `reserved`: the reserved ranges of the block's space. If
// `may_remove` is false, removes no reserved entry, and replaces none by an entry of another reservation.
[[nodiscard]] ReservedChange WithReserved(const ipam::Block& block, const ipam::Pool& pool,
                                          const std::vector<ReservedRange>& reserved, std::int64_t now_ms,
                                          bool may_remove);

// Facts about one space.
struct ReservedSpace {
  std::string space;
  std::vector<ReservedRange> reserved;
  bool may_stop_withholding = true;  // see MayStopWithholding
};

// Inputs of a decision about one space.
struct ReservedScope {
  const World& world;
  const ControllerState& state;
  const std::map<std::string, ipam::Pool>& pools;  // the pools whose blocks are changed, by UID
  const Now& now;
  bool relisted = false;
  bool knows_pods = true;  // false: the controller has yet to list the pods, so it removes no reserved entry
};

// Adds to the decision the changes of reserved entries in the space's blocks.
void DecideReserved(const ReservedScope& scope, const ReservedSpace& space, Decision& decision);

}  // namespace berth::reconciler
