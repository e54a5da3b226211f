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

// Whether at least half of the pool's blocks are free, as far as its status tells.
[[nodiscard]] bool IsHalfFree(const Pool& pool);

// At random among the blocks in which none of `existing` lies. Nothing: all exist.
[[nodiscard]] std::optional<Prefix> PickClaimExactly(const Pool& pool, const std::vector<Prefix>& existing,
                                                     const Random& random);

}  // namespace berth::ipam
