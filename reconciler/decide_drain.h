// SPDX-License-Identifier: Apache-2.0
// Draining: the controller removes blocks and pools that are being deleted, once no pod has an address in them.
//
// The controller removes the finalizer of a block by one compare-and-swap on a version at which the block is empty. The
// controller removes the finalizer of a pool when consistent lists, taken after the controller saw the
// deletionTimestamp, show no block of the pool. If a node claims a block after these lists, the node reads the pool
// before it gives an address of the block to a pod, finds that the pool is gone, and gives the block back. Draining
// frees no address.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reconciler/decision.h"
#include "reconciler/empty_blocks.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Limit of block writes that each of decide_blocks, decide_drain and decide_reserved (for one space) adds to one
// decision. The next decision adds the rest.
inline constexpr std::size_t kBlockChangesMax = 200;

// Adds writes of blocks to a decision. Leaves out blocks that wait after a failure. So if the API server refuses the
// writes of many blocks, other blocks still get their turn.
class BlockWrites {
 public:
  BlockWrites(const ControllerState& state, const Now& now, Decision& decision)
      : state_(state), now_(now), decision_(decision) {}
  // Requires: not IsFull().
  void Add(Action action);
  [[nodiscard]] bool IsFull() const { return count_ >= kBlockChangesMax; }

 private:
  const ControllerState& state_;
  const Now& now_;
  Decision& decision_;
  std::size_t count_ = 0;
};

[[nodiscard]] bool HasFinalizer(const std::vector<std::string>& finalizers, std::string_view finalizer);
[[nodiscard]] std::vector<std::string> Without(std::vector<std::string> finalizers, std::string_view finalizer);

struct DrainScope {
  const World& world;
  const EmptyBlocks& empty;  // up to date
  const ControllerState& state;
  const Now& now;
  bool relisted;
};
// Deletes empty blocks of pools that are gone or being deleted, and empty blocks that do not fit their pool. Removes
// the finalizer of empty blocks that are being deleted. Leaves out blocks in which a pod has an address. Treats a pool
// as gone only if the world is relisted.
void DecideBlockDrain(const DrainScope& scope, Decision& decision);

// If the world is relisted, removes the finalizer of each pool that is being deleted, is in no space's status.accepted
// and has no block.
void DecidePoolDrain(const World& world, bool relisted, Decision& decision);

}  // namespace berth::reconciler
