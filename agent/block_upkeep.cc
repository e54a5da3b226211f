// SPDX-License-Identifier: Apache-2.0
// Upkeep looks at every entry of every block, and edits few blocks.
#include "agent/block_upkeep.h"

#include <algorithm>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/call_runtime.h"
#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/pool_choice.h"

namespace berth::agent {

using ipam::BlockView;

void SweepCooled(OwnBlocks& own, k8sclient::Clock& clock) {
  CallRuntime runtime(clock, clock.Now(), kStepMax, own);
  const std::int64_t now_ms = runtime.UnixMillis();
  const auto is_over = [now_ms](const std::string& entry) {
    const auto until = ipam::CoolingUntil(entry, now_ms);
    return until && *until <= now_ms;
  };
  for (const BlockView& block : own.Snapshot()) {
    const bool has_cooled = std::ranges::any_of(block->allocations, [&](const auto& a) { return is_over(a.second); });
    if (!has_cooled) continue;
    const auto written = own.Edit(block, {.what = ipam::SweepCooled{.now_ms = now_ms}}, runtime.end());
    if (!written)
      spdlog::warn(
          "cannot remove cooling entries whose time is over block={} err=\"{}\"", block->name, written.error().message);
  }
}

void RenewStandby(OwnBlocks& own, const ClusterView& view, k8sclient::Clock& clock) {
  const std::vector<ipam::PoolView> pools = view.AllPools();
  const std::int64_t now_ms = CallRuntime(clock, clock.Now(), kStepMax, own).UnixMillis();
  for (const BlockView& block : own.Snapshot()) {
    if (block->standby.empty()) continue;
    const auto found = std::ranges::find_if(
        pools, [&](const ipam::PoolView& one) { return one->uid == block->pool_uid && ipam::CheckUsable(*one); });
    const ipam::PoolView pool = found == pools.end() ? nullptr : *found;
    const ipam::StandbyPlan plan{.pool = pool, .now_ms = now_ms, .block_uid = block->uid};
    own.RenewStandby(block, plan);
  }
}

}  // namespace berth::agent
