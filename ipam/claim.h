// SPDX-License-Identifier: Apache-2.0
// Which block to claim next: pure choice among those that may be free.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ipam/pool.h"
#include "ipam/prefix.h"

namespace berth::ipam {

// Uniform in [0, bound).
using Random = std::function<Uint128(Uint128 bound)>;

// From what the pool's status says: at random among all blocks while fewer than half of them exist, since then a random
// one is probably free and claimers rarely meet; later at random among `claimable`. Nothing: the hint knows no free
// block.
[[nodiscard]] std::optional<Prefix> PickClaimByHint(const Pool& pool, const Random& random);

// Whether a node may claim a block before it needs one, as far as the pool's status tells: not where blocks are scarce,
// and one that uses nothing of the pool only while at least half of its blocks are free.
[[nodiscard]] bool MayClaimAhead(const Pool& pool, bool uses_it);

// At random among the blocks in which none of `existing` lies. Nothing: all exist.
[[nodiscard]] std::optional<Prefix> PickClaimExactly(const Pool& pool, const std::vector<Prefix>& existing,
                                                     const Random& random);

}  // namespace berth::ipam
