// SPDX-License-Identifier: Apache-2.0
// Counts addresses. Uses the last counts of blocks and pools that did not change.
#include "reconciler/census.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "crds/names.h"
#include "ipam/entry.h"

namespace berth::reconciler {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// UNIX time (ms) at which the next cooling entry of the block ends; kNever: no entry cools.
std::int64_t NextThaw(const ipam::Block& block, std::int64_t now_ms) {
  std::int64_t next = kNever;
  for (const auto& [offset, text] : block.allocations) {
    const auto until = ipam::CoolingUntil(text, now_ms);
    if (until && *until > now_ms) next = std::min(next, *until);
  }
  return next;
}

}  // namespace

std::map<std::string, CountedPool> AcceptedPools(const World& world) {
  std::map<std::string, CountedPool> accepted;
  for (const auto& [name, seen] : world.pools) {
    if (!seen.pool) continue;
    const auto space = world.spaces.find(seen.pool->space);
    if (space == world.spaces.end() || FindAccepted(space->second, seen.meta.uid) == nullptr) continue;
    CountedPool counted{.pool = *seen.pool, .generation = seen.meta.generation};
    counted.pool.withheld = seen.status.withheld;
    accepted.emplace(seen.meta.uid, std::move(counted));
  }
  return accepted;
}

void Census::Take(const World& world, const std::map<std::string, CountedPool>& pools, std::int64_t now_ms) {
  const bool rules_changed = UpdateRules(pools);
  if (rules_changed || block_set_version_ != world.block_set_version()) UpdateBlockSets(world, pools);
  CountBlocks(world, pools, now_ms);
}

const PoolCounts& Census::OfPool(const std::string& uid) const {
  const auto found = rules_.find(uid);
  BERTH_CHECK(found != rules_.end());
  return found->second.counts;
}

const ipam::IntervalSet& Census::UnclaimedOf(const std::string& uid) const {
  const auto found = rules_.find(uid);
  BERTH_CHECK(found != rules_.end());
  return found->second.unclaimed;
}

std::uint32_t Census::FreeIn(const std::string& block) const {
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? 0 : found->second.free;
}

SpaceCounts Census::OfSpace(const std::string& space) const {
  const auto found = spaces_.find(space);
  return found == spaces_.end() ? SpaceCounts() : found->second.counts;
}

bool Census::UpdateRules(const std::map<std::string, CountedPool>& pools) {
  bool changed = std::erase_if(rules_, [&](const auto& item) { return !pools.contains(item.first); }) > 0;
  for (const auto& [uid, counted] : pools) {
    Rules& rules = rules_[uid];
    if (rules.id != 0 && rules.generation == counted.generation && rules.withheld == counted.pool.withheld) continue;
    changed = true;
    rules = {.id = ++last_rules_id_, .generation = counted.generation, .withheld = counted.pool.withheld};
    rules.assignable = ipam::Assignable(counted.pool);
    rules.counts.total = rules.assignable.Count();
    rules.counts.blocks_max = ipam::PoolBlocks(counted.pool).Count();
  }
  return changed;
}

void Census::UpdateBlockSets(const World& world, const std::map<std::string, CountedPool>& pools) {
  block_set_version_ = world.block_set_version();
  std::erase_if(blocks_, [&](const auto& item) { return !world.blocks().contains(item.first); });
  // By space. Includes blocks of pools that are not in `pools`, because their addresses are claimed too.
  std::map<std::string, std::vector<ipam::Prefix>> cidrs;
  std::map<std::string, std::vector<ipam::AddressRange>> ranges_of_blocks;
  for (const auto& [name, block] : world.blocks()) {
    cidrs[block.space].push_back(block.cidr);
    ranges_of_blocks[block.space].push_back(ipam::AddressRange::Of(block.cidr));
  }
  std::map<std::string, ipam::IntervalSet> claimed;
  for (const auto& [space, ranges] : ranges_of_blocks) claimed.emplace(space, ipam::IntervalSet(ranges));
  std::map<std::string, std::vector<ipam::AddressRange>> assignable;
  for (const auto& [uid, counted] : pools) {
    const ipam::Pool& pool = counted.pool;
    Rules& rules = rules_.at(uid);
    const auto& ranges = rules.assignable.ranges();
    assignable[pool.space].insert(assignable[pool.space].end(), ranges.begin(), ranges.end());
    rules.unclaimed = rules.assignable;
    rules.unclaimed.Subtract(claimed[pool.space]);
    const auto is_of_pool = [&](const ipam::Prefix& cidr) {
      return cidr.Overlaps(pool.subnet) && !rules.assignable.Intersection(ipam::AddressRange::Of(cidr)).empty();
    };
    // More blocks may exist than the pool can be divided into: a client with a node's token can create blocks of any
    // size.
    const auto claimed_blocks = static_cast<ipam::Uint128>(std::ranges::count_if(cidrs[pool.space], is_of_pool));
    rules.counts.blocks_unclaimed = rules.counts.blocks_max - std::min(rules.counts.blocks_max, claimed_blocks);
    rules.counts.claimable = ipam::Claimable(pool, cidrs[pool.space], crds::kClaimableMax);
  }
  spaces_.clear();
  for (const auto& [name, ranges] : assignable) {
    ipam::IntervalSet unclaimed(ranges);
    Space& space = spaces_[name];
    space.total = unclaimed.Count();
    unclaimed.Subtract(claimed[name]);
    space.unclaimed = unclaimed.Count();
  }
}

void Census::CountBlocks(const World& world, const std::map<std::string, CountedPool>& pools, std::int64_t now_ms) {
  next_change_ms_.reset();
  for (auto& [uid, rules] : rules_) {
    rules.counts.used = 0;
    rules.counts.blocks = 0;
    rules.counts.free = rules.unclaimed.Count();
  }
  for (auto& [name, space] : spaces_) {
    space.counts = {.total = space.total, .used = 0, .free = space.unclaimed};
  }
  for (const auto& [name, seen] : world.blocks()) {
    const auto space = spaces_.find(seen.space);
    if (space == spaces_.end()) continue;
    space->second.counts.used += seen.entries.held;
    const auto owner = rules_.find(seen.pool_uid);
    if (owner == rules_.end()) continue;
    PoolCounts& counts = owner->second.counts;
    ++counts.blocks;
    counts.used += seen.entries.held;
    if (seen.block == nullptr) continue;
    const BlockCount& count = Count(seen, pools.at(seen.pool_uid).pool, owner->second.id, now_ms);
    counts.free += count.free;
    space->second.counts.free += count.free;
    if (count.valid_until_ms != kNever) {
      next_change_ms_ = std::min(next_change_ms_.value_or(kNever), count.valid_until_ms);
    }
  }
}

const Census::BlockCount& Census::Count(const SeenBlock& seen, const ipam::Pool& pool, std::uint64_t rules_id,
                                        std::int64_t now_ms) {
  BlockCount& count = blocks_[seen.name];
  if (count.block == seen.block && count.rules_id == rules_id && now_ms < count.valid_until_ms) return count;
  count = {.block = seen.block,
           .rules_id = rules_id,
           .free = ipam::CountFree(*seen.block, pool, now_ms),
           .valid_until_ms = seen.entries.cooling == 0 ? kNever : NextThaw(*seen.block, now_ms)};
  return count;
}

}  // namespace berth::reconciler
