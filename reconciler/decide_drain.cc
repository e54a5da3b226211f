// SPDX-License-Identifier: Apache-2.0
// Decides when blocks and pools may be removed.
#include "reconciler/decide_drain.h"

#include <algorithm>
#include <set>
#include <string>

#include "crds/names.h"
#include "reconciler/decide_lost.h"

namespace berth::reconciler {

namespace {

std::vector<std::string> Without(std::vector<std::string> finalizers, std::string_view finalizer) {
  std::erase(finalizers, finalizer);
  return finalizers;
}

enum class Fate : std::uint8_t { kStays, kGoes, kPoolIsGone };

class BlockDrain {
 public:
  BlockDrain(const World& world, const EmptyBlocks& empty, const Now& now, bool relisted, Decision& decision)
      : now_(now), empty_(empty), relisted_(relisted), decision_(decision), pod_addresses_(world) {
    for (const auto& [name, pool] : world.pools) (pool.meta.deleting() ? deleted_ : live_).insert(pool.meta.uid);
  }

  // False: this decision has no room for more block writes.
  bool Decide(const SeenBlock& seen) {
    if (seen.block == nullptr) return true;
    const bool has_finalizer = HasFinalizer(seen.block->finalizers, ipam::kBlockFinalizer);
    if (seen.block->deleting && !has_finalizer) return true;
    const Fate fate = FateOf(seen);
    if (fate == Fate::kStays || seen.entries.IsInUse()) return true;
    const auto since = empty_.Since(seen.name);
    if (!since) {
      decision_.WakeAt(seen.CoolsUntil(now_.unix_ms));
      return true;
    }
    if (now_.steady < *since + kSeenEmptyMin) {
      decision_.WakeAt(*since + kSeenEmptyMin);
      return true;
    }
    if (pod_addresses_.AreLostIn(*seen.block)) return true;
    if (fate == Fate::kPoolIsGone && !relisted_) {
      decision_.wants_relist.insert(BlockKey(seen.name));
      return true;
    }
    if (++changes_ > kBlockChangesMax) {
      decision_.WakeAt(now_.unix_ms);
      return false;
    }
    if (!seen.block->deleting) {
      decision_.actions.push_back(DeleteBlock{.block = seen.block});
    } else {
      ipam::Block after = *seen.block;
      after.finalizers = Without(after.finalizers, ipam::kBlockFinalizer);
      decision_.actions.push_back(ChangeBlock{.before = seen.block, .after = std::move(after)});
    }
    return true;
  }

 private:
  [[nodiscard]] Fate FateOf(const SeenBlock& seen) const {
    if (seen.block->deleting || deleted_.contains(seen.pool_uid)) return Fate::kGoes;
    return live_.contains(seen.pool_uid) ? Fate::kStays : Fate::kPoolIsGone;
  }

  const Now& now_;
  const EmptyBlocks& empty_;
  bool relisted_;
  Decision& decision_;
  PodAddresses pod_addresses_;
  std::set<std::string> live_;
  std::set<std::string> deleted_;
  std::size_t changes_ = 0;
};

bool HasBlock(const World& world, const SeenPool& pool) {
  return std::ranges::any_of(world.blocks(), [&](const auto& item) {
    const SeenBlock& block = item.second;
    if (!pool.pool) return block.pool_uid.empty() || block.pool_uid == pool.meta.uid;
    return block.MayBelongTo(pool.meta.uid, pool.pool->space, pool.pool->subnet);
  });
}

bool IsAccepted(const World& world, const SeenPool& pool) {
  return std::ranges::any_of(world.spaces, [&](const auto& item) {
    return IsUnreadable(item.second) || FindAccepted(item.second, pool.meta.uid) != nullptr;
  });
}

}  // namespace

bool HasFinalizer(const std::vector<std::string>& finalizers, std::string_view finalizer) {
  return std::ranges::find(finalizers, finalizer) != finalizers.end();
}

void DecideBlockDrain(const World& world, const EmptyBlocks& empty, const Now& now, bool relisted, Decision& decision) {
  BlockDrain drain(world, empty, now, relisted, decision);
  for (const auto& [name, seen] : world.blocks()) {
    if (!drain.Decide(seen)) return;
  }
}

void DecidePoolDrain(const World& world, bool relisted, Decision& decision) {
  for (const auto& [name, pool] : world.pools) {
    if (!pool.meta.deleting() || !HasFinalizer(pool.meta.finalizers, crds::kPoolFinalizer)) continue;
    if (IsAccepted(world, pool) || HasBlock(world, pool)) continue;
    if (!relisted) {
      decision.wants_relist.insert(PoolKey(name));
      continue;
    }
    decision.actions.push_back(
        SetPoolFinalizers{.pool = name, .finalizers = Without(pool.meta.finalizers, crds::kPoolFinalizer)});
  }
}

}  // namespace berth::reconciler
