// SPDX-License-Identifier: Apache-2.0
// Chooses the next block to claim among those that may be unclaimed. Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ipam/pool.h"
#include "ipam/prefix.h"

namespace berth::ipam {

// A uniform random number in [0, bound).
using Random = std::function<Uint128(Uint128 bound)>;

// Picks a random block of the pool if fewer than half of its blocks exist: this block is probably unclaimed, and two
// claims rarely pick the same block. Otherwise picks a random block of `pool.claimable`. nullopt: the pool's status
// shows no unclaimed block.
[[nodiscard]] std::optional<Prefix> PickClaimByHint(const Pool& pool, const Random& random);

// True: the pool's status allows a node to claim a block in advance. While blocks are scarce, no node may do this. A
// node whose pods have no address of the pool (`uses_it` is false) may do this only while at least half of the pool's
// blocks are unclaimed.
[[nodiscard]] bool MayClaimAhead(const Pool& pool, bool uses_it);

// Picks a random block of the pool that overlaps no block of `existing`. nullopt: every block is claimed.
[[nodiscard]] std::optional<Prefix> PickClaimExactly(const Pool& pool, const std::vector<Prefix>& existing,
                                                     const Random& random);

}  // namespace berth::ipam
