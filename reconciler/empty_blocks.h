// SPDX-License-Identifier: Apache-2.0
// Since when blocks have been empty: one that was emptied just now may be so by somebody's edit, and is not given back.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// So long a block has to be seen empty before it may go, whoever wants it. Within that time the node's agent has
// written again what somebody took out, the kubelet has told which addresses its pods have, and the watch of pods has
// caught up with that of blocks.
inline constexpr std::chrono::seconds kSeenEmptyMin{5};

class EmptyBlocks {
 public:
  void Update(const World& world, const Moment& now);
  // As far as was seen. Nothing: it is not.
  [[nodiscard]] std::optional<SteadyTime> Since(const std::string& block) const;

 private:
  std::map<std::string, SteadyTime> since_;  // by name
};

}  // namespace berth::reconciler
