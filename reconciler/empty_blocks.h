// SPDX-License-Identifier: Apache-2.0
// EmptyBlocks: since when blocks have been empty. A block that became empty a moment ago stays, because a person may
// have emptied it by mistake.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// How long the controller has to see a block empty before it may delete the block, even if a node needs a block
// urgently. Within this time the node's agent writes an entry again that somebody removed, the kubelet reports the
// addresses of its pods, and the watch of pods catches up with the watch of blocks.
inline constexpr std::chrono::seconds kSeenEmptyMin{5};

class EmptyBlocks {
 public:
  void Update(const World& world, const Now& now);
  // The time since when the controller has seen the block empty. Nothing: the block is not empty.
  [[nodiscard]] std::optional<SteadyTime> Since(const std::string& block) const;

 private:
  std::map<std::string, SteadyTime> since_;  // by name
};

}  // namespace berth::reconciler
