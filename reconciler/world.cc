// SPDX-License-Identifier: Apache-2.0
// Keeps the world up to date, and finds objects in it.
#include "reconciler/world.h"

#include <algorithm>
#include <utility>

#include "crds/names.h"
#include "ipam/entry.h"

namespace berth::reconciler {

bool SeenPool::IsReady() const {
  const crds::Condition* condition = crds::FindCondition(status.conditions, crds::kReadyCondition);
  return condition != nullptr && condition->status == "True";
}

const crds::AcceptedPool* FindAccepted(const crds::Space& space, const std::string& pool_uid) {
  const auto found = std::ranges::find(space.accepted, pool_uid, &crds::AcceptedPool::uid);
  return found == space.accepted.end() ? nullptr : &*found;
}

EntryCounts CountEntries(const ipam::Block& block) {
  EntryCounts counts;
  for (const auto& [offset, text] : block.allocations) {
    if (ipam::CoolingUntil(text, /*now_ms=*/0)) {
      ++counts.cooling;
      if (ipam::FreedUnder(text)) ++counts.unchecked;
    } else if (text.starts_with("! ") && std::holds_alternative<ipam::ReservedEntry>(ipam::ParseEntry(text))) {
      ++counts.reserved;
    } else {
      ++counts.held;
    }
  }
  counts.standby = static_cast<std::uint32_t>(std::ranges::count_if(
      block.standby, [&block](ipam::BlockOffset offset) { return !block.allocations.contains(offset); }));
  return counts;
}

std::int64_t SeenBlock::CoolsUntil(std::int64_t now_ms) const {
  if (entries.cooling == 0 || block == nullptr) return 0;
  std::int64_t latest = 0;
  for (const auto& [offset, text] : block->allocations) {
    latest = std::max(latest, ipam::CoolingUntil(text, now_ms).value_or(0));
  }
  return latest;
}

bool SeenBlock::MayBelongTo(const std::string& of_pool_uid, const std::string& of_space,
                            const ipam::Prefix& subnet) const {
  if (!pool_uid.empty()) return pool_uid == of_pool_uid;
  return space == of_space && cidr.Overlaps(subnet);
}

void World::PutBlock(SeenBlock block) {
  const auto found = blocks_.find(block.name);
  if (found == blocks_.end() || found->second.uid != block.uid) ++block_set_version_;
  // If the watch shows the version that the controller wrote, the version stays the controller's own write.
  const bool is_same = found != blocks_.end() && found->second.resource_version == block.resource_version;
  if (is_same) block.is_own_write = found->second.is_own_write;
  std::string name = block.name;
  blocks_.insert_or_assign(std::move(name), std::move(block));
}

void World::RemoveBlock(const std::string& name) {
  if (blocks_.erase(name) != 0) ++block_set_version_;
}

const SeenPool* World::FindPoolByUid(const std::string& uid) const {
  for (const auto& [name, pool] : pools) {
    if (pool.meta.uid == uid) return &pool;
  }
  return nullptr;
}

}  // namespace berth::reconciler
