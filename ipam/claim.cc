// SPDX-License-Identifier: Apache-2.0
// Chooses a block to claim.
#include "ipam/claim.h"

namespace berth::ipam {

namespace {

// Limit of the list of unclaimed prefixes: long enough that two claims rarely pick the same block, and limits memory.
constexpr std::size_t kFreeRunsMax = 4096;

std::optional<Prefix> PickFrom(const PoolBlocks& blocks, const Random& random) {
  if (blocks.Count() == 0) return std::nullopt;
  return blocks.At(random(blocks.Count()));
}

}  // namespace

std::optional<Prefix> PickClaimByHint(const Pool& pool, const Random& random) {
  const PoolBlocks all(pool);
  if (pool.block_count < all.Count() - all.Count() / 2) return PickFrom(all, random);
  return PickFrom(PoolBlocks(pool, pool.claimable), random);
}

bool MayClaimAhead(const Pool& pool, bool uses_it) {
  return !pool.is_scarce && (uses_it || pool.block_count <= PoolBlocks(pool).Count() / 2);
}

std::optional<Prefix> PickClaimExactly(const Pool& pool, const std::vector<Prefix>& existing, const Random& random) {
  return PickFrom(PoolBlocks(pool, Claimable(pool, existing, kFreeRunsMax)), random);
}

}  // namespace berth::ipam
