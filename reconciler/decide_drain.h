// SPDX-License-Identifier: Apache-2.0
// Draining: blocks and pools that are on their way out leave when nobody has an address in them.
//
// A block's finalizer goes by one compare-and-swap on a version that is empty, and a pool's when consistent lists,
// taken after its deletionTimestamp was seen, show no block of it: whoever claims a block afterwards reads the pool
// before he hands out from it, and gives the block back. Nobody's address is touched here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reconciler/decision.h"
#include "reconciler/empty_blocks.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Block writes of one decision; the rest follows in the next.
inline constexpr std::size_t kBlockChangesMax = 200;

[[nodiscard]] bool HasFinalizer(const std::vector<std::string>& finalizers, std::string_view finalizer);

// Empty blocks of pools that are being deleted or gone are deleted; empty blocks with a deletionTimestamp lose their
// finalizer; none in which a pod has an address. That a pool is gone is believed only if the world is relisted.
// Requires: `empty` is up to date.
void DecideBlockDrain(const World& world, const EmptyBlocks& empty, const Moment& now, bool relisted,
                      Decision& decision);

// Pools with a deletionTimestamp that no space has accepted any more and of which no block is left lose their
// finalizer, if the world is relisted.
void DecidePoolDrain(const World& world, bool relisted, Decision& decision);

}  // namespace berth::reconciler
