// SPDX-License-Identifier: Apache-2.0
// Stores a time for each name of a block. If somebody deletes an empty block and creates it again, the time restarts
// only if an update in between has found no empty block of this name.
#include "reconciler/empty_blocks.h"

#include <utility>

namespace berth::reconciler {

void EmptyBlocks::Update(const World& world, const Now& now) {
  std::map<std::string, SteadyTime> since;
  for (const auto& [name, seen] : world.blocks()) {
    if (seen.block == nullptr || !seen.IsEmpty(now.unix_ms)) continue;
    since.emplace_hint(since.end(), name, Since(name).value_or(now.steady));
  }
  since_ = std::move(since);
}

std::optional<SteadyTime> EmptyBlocks::Since(const std::string& block) const {
  const auto found = since_.find(block);
  return found == since_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace berth::reconciler
