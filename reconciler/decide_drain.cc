// SPDX-License-Identifier: Apache-2.0
// Decides when blocks and pools may be removed.
#include "reconciler/decide_drain.h"

#include <algorithm>
#include <map>
#include <string>

#include "crds/names.h"
#include "reconciler/decide_lost.h"

namespace berth::reconciler {

namespace {

enum class Fate : std::uint8_t { kStays, kGoes, kPoolIsGone };

class BlockDrain {
 public:
  BlockDrain(const DrainScope& scope, Decision& decision)
      : scope_(scope),
        now_(scope.now),
        decision_(decision),
        pod_addresses_(scope.world),
        writes_(scope.state, scope.now, decision) {
    for (const auto& [name, pool] : scope.world.pools) pools_.emplace(pool.meta.uid, &pool);
  }

  [[nodiscard]] bool IsFull() const { return writes_.IsFull(); }

  // Requires: not IsFull().
  void Decide(const SeenBlock& seen) {
    if (seen.block == nullptr) return;
    const bool has_finalizer = HasFinalizer(seen.block->finalizers, ipam::kBlockFinalizer);
    if (seen.block->deleting && !has_finalizer) return;
    const Fate fate = FateOf(seen);
    if (fate == Fate::kStays || seen.entries.IsInUse()) return;
    const auto since = scope_.empty.Since(seen.name);
    if (!since) return decision_.WakeAt(seen.CoolsUntil(now_.unix_ms));
    if (now_.steady < *since + kSeenEmptyMin) return decision_.WakeAt(*since + kSeenEmptyMin);
    if (pod_addresses_.AreLostIn(*seen.block)) return;
    if (fate == Fate::kPoolIsGone && !scope_.relisted) {
      decision_.wants_relist.insert(BlockKey(seen.name));
    } else if (!seen.block->deleting) {
      writes_.Add(DeleteBlock{.block = seen.block});
    } else {
      ipam::Block after = *seen.block;
      after.finalizers = Without(after.finalizers, ipam::kBlockFinalizer);
      writes_.Add(ChangeBlock{.before = seen.block, .after = std::move(after)});
    }
  }

 private:
  [[nodiscard]] Fate FateOf(const SeenBlock& seen) const {
    if (seen.block->deleting) return Fate::kGoes;
    const auto found = pools_.find(seen.pool_uid);
    if (found == pools_.end()) return Fate::kPoolIsGone;
    const SeenPool& pool = *found->second;
    return pool.meta.deleting() || (pool.pool && !Fits(*seen.block, *pool.pool)) ? Fate::kGoes : Fate::kStays;
  }

  // True if agents could have created the block for the pool. Whoever has a node's credentials can create other blocks,
  // which no agent uses, and which would keep nodes from claiming blocks of these addresses.
  static bool Fits(const ipam::Block& block, const ipam::Pool& pool) {
    return pool.subnet.Contains(block.cidr) && block.cidr.length() == pool.BlockLength() &&
           block.shared() == (pool.affinity == ipam::Affinity::kShared);
  }

  const DrainScope& scope_;
  const Now& now_;
  Decision& decision_;
  PodAddresses pod_addresses_;
  BlockWrites writes_;
  std::map<std::string, const SeenPool*> pools_;  // by UID
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

std::vector<std::string> Without(std::vector<std::string> finalizers, std::string_view finalizer) {
  std::erase(finalizers, finalizer);
  return finalizers;
}

void BlockWrites::Add(Action action) {
  if (!state_.backoff.MayTry(KeyOf(action), now_.steady)) return;
  decision_.actions.push_back(std::move(action));
  ++count_;
  if (IsFull()) decision_.WakeAt(now_.steady);
}

void DecideBlockDrain(const DrainScope& scope, Decision& decision) {
  BlockDrain drain(scope, decision);
  for (const auto& [name, seen] : scope.world.blocks()) {
    if (drain.IsFull()) return;
    drain.Decide(seen);
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
    decision.actions.push_back(SetFinalizers{.collection = crds::kPoolsPath,
                                             .name = name,
                                             .finalizers = Without(pool.meta.finalizers, crds::kPoolFinalizer)});
  }
}

}  // namespace berth::reconciler
