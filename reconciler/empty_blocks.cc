// SPDX-License-Identifier: Apache-2.0
// Times are kept by name. If a block is made again, its time begins anew, provided that an update has found it missing
// or not empty in between.
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
