// SPDX-License-Identifier: Apache-2.0
// Finds which nodes want a block, and whose block may be deleted.
#include "reconciler/decide_blocks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crds/names.h"
#include "reconciler/decide_drain.h"
#include "reconciler/decide_lost.h"
#include "reconciler/decide_orphans.h"

namespace berth::reconciler {

namespace {

using ipam::Uint128;

std::chrono::milliseconds JitterOf(const std::string& block) {
  const std::chrono::milliseconds most(kEmptyJitter);
  return most * (std::hash<std::string>()(block) % 1000) / 1000;
}

bool IsScarce(const SeenPool& pool) {
  const crds::Condition* condition = crds::FindCondition(pool.status.conditions, crds::kScarceCondition);
  return condition != nullptr && condition->status == "True";
}

struct OwnedBlock {
  const SeenBlock* seen;
  bool is_going;
};

// A Ready node that the pool's selector admits.
struct Claimer {
  std::size_t blocks = 0;  // the node's blocks of the pool, except those that are being deleted
  bool has_room = false;
  std::optional<SteadyTime> waiting = {};  // since when the node's first pod has waited for an address

  [[nodiscard]] bool WantsBlock() const { return blocks == 0 || (waiting && !has_room); }
  [[nodiscard]] bool IsUrgent(SteadyTime now) const { return waiting && !has_room && *waiting + kPodWaitMax <= now; }
};

struct BlockToGive {
  const SeenBlock* block;
  SteadyTime since;
};

class BlockPass {
 public:
  BlockPass(const BlockScope& scope, const Now& now, LeavingBlocks& leaving, Decision& decision)
      : scope_(scope),
        now_(now),
        leaving_(leaving),
        decision_(decision),
        writes_(scope.state, now, decision),
        pod_addresses_(scope.world) {
    for (const auto& [key, since] : scope.world.pods.waiting()) {
      const std::string& node = scope.world.pods.Find(key)->node;
      const auto [found, is_new] = waiting_.try_emplace(node, since);
      if (!is_new) found->second = std::min(found->second, since);
    }
    for (const auto& [name, seen] : scope.world.blocks()) {
      if (seen.block == nullptr) continue;
      const bool is_going = IsOfGoneNode(*seen.block);
      if (is_going) GiveUp(seen);
      by_pool_[seen.pool_uid].push_back({.seen = &seen, .is_going = is_going || seen.block->deleting});
    }
  }

  void DecidePool(const std::string& uid, const ipam::Pool& pool) {
    const bool hands_out = pool.affinity == ipam::Affinity::kNode && !pool.disabled && !pool.deleting;
    Uint128 left = scope_.census.OfPool(uid).blocks_unclaimed;
    const Lack lack = LackOf(uid);
    const std::size_t nodes = scope_.world.nodes.all().size();
    // This check is fast, and enough for most pools: they have an unclaimed block for every pair of a node and a pool.
    // SharersOf takes longer, and returns at most the number of pools.
    if (!hands_out || left >= scope_.pools.size() * nodes + lack.blocks) return;
    // Each node may claim one block of each of the `sharers` pools, and all these blocks come from the same addresses.
    const std::size_t sharers = SharersOf(pool);
    if (left >= sharers * nodes + lack.blocks) return;
    const std::vector<OwnedBlock>& blocks = by_pool_[uid];
    left += static_cast<Uint128>(std::ranges::count_if(blocks, [&](const OwnedBlock& one) {
      return one.is_going && one.seen->IsEmpty(now_.unix_ms) && !pod_addresses_.AreLostIn(*one.seen->block);
    }));
    const std::map<std::string, Claimer> claimers = ClaimersOf(pool, blocks);
    // Use the larger of the two numbers, not the sum: both numbers may count the same node, once because it has no
    // block yet and once because its waiting pods lack a block.
    const auto wanting = std::max(lack.blocks,
                                  static_cast<std::size_t>(std::ranges::count_if(
                                      claimers, [](const auto& item) { return item.second.WantsBlock(); })));
    const auto urgent =
        UrgentOf(lack) + static_cast<std::size_t>(std::ranges::count_if(
                             claimers, [this](const auto& item) { return item.second.IsUrgent(now_.steady); }));
    // Scarcity ends only when more blocks are unclaimed than at its beginning. When it ends, all nodes may claim in
    // advance at once, and these claims must not make blocks scarce again.
    const bool was_scarce = IsScarce(*scope_.world.FindPoolByUid(uid));
    const bool is_scarce = left < (was_scarce ? std::max(wanting, sharers * claimers.size()) : wanting);
    if (is_scarce) scarce_.insert(uid);
    for (const BlockToGive& candidate : Candidates(blocks)) {
      if (writes_.IsFull() || IsRefused(*candidate.block)) {
        KeepLeaving(*candidate.block);
        continue;
      }
      const bool is_needed = left < wanting;
      if (left >= urgent && !is_needed) return;
      const SteadyTime due = candidate.since + kEmptyMin + JitterOf(candidate.block->name);
      if (const SteadyTime at = left >= urgent ? due : candidate.since + kSeenEmptyMin; now_.steady < at) {
        decision_.WakeAt(at);
        continue;
      }
      if (pod_addresses_.AreLostIn(*candidate.block->block)) continue;
      if (scope_.demand.MayStillDraw(candidate.block->name, now_.steady)) continue;
      if (Leave(uid, *candidate.block)) ++left;
    }
  }

  [[nodiscard]] const std::set<std::string>& scarce() const { return scarce_; }
  [[nodiscard]] LeavingBlocks TakeLeft() { return std::move(left_); }

 private:
  // Number of enabled pools of the space whose subnets overlap that of `pool`, including `pool` itself.
  [[nodiscard]] std::size_t SharersOf(const ipam::Pool& pool) const {
    return static_cast<std::size_t>(std::ranges::count_if(scope_.pools, [&](const auto& item) {
      const ipam::Pool& other = item.second.pool;
      return other.space == pool.space && other.subnet.Overlaps(pool.subnet) && !other.disabled;
    }));
  }
  [[nodiscard]] Lack LackOf(const std::string& uid) const {
    const auto found = scope_.demand.lacks().find(uid);
    return found == scope_.demand.lacks().end() ? Lack() : found->second;
  }
  // The lacking blocks, if the pods that need them have waited for kPodWaitMax; otherwise 0.
  [[nodiscard]] std::size_t UrgentOf(const Lack& lack) const {
    if (lack.blocks == 0 || lack.since + kPodWaitMax <= now_.steady) return lack.blocks;
    decision_.WakeAt(lack.since + kPodWaitMax);
    return 0;
  }

  // Deletes an empty block, once the address count of the block's node no longer includes the block's addresses. False:
  // pods bound to the node need the block, so the block stays and the Node counts it.
  bool Leave(const std::string& pool_uid, const SeenBlock& seen) {
    if (!IsCounted(pool_uid, seen)) return Delete(seen);
    const SeenNode& node = *scope_.world.nodes.Find(seen.block->node);
    const std::string& resource = scope_.counted.ResourceOf(pool_uid);
    const NodeTally& tallies = scope_.counts.Of(node.name);
    const auto found = tallies.find(resource);
    const Tally tally = found == tallies.end() ? Tally() : found->second;
    // The tally does not include the changes of this decision, so `change` has them.
    std::int64_t& change = changes_[{node.name, resource}];
    const auto free = static_cast<std::int64_t>(scope_.census.FreeIn(seen.name));
    const auto before = leaving_.find(seen.name);
    if (before == leaving_.end()) {
      if (tally.Left() + change < free) return false;
      // From the next decision on, the address counts do not include the block.
      left_.try_emplace(seen.name);
      change -= free;
      decision_.WakeAt(now_.steady);
      return true;
    }
    // Pods that came in the meantime need the block.
    if (tally.Left() + change < 0) {
      change += free;
      return false;
    }
    std::optional<SteadyTime>& uncounted = left_[seen.name];
    const auto number = node.numbers.find(resource);
    const bool is_uncounted = number == node.numbers.end() || number->second.Highest() <= tally.Sum();
    if (!is_uncounted) return true;
    uncounted = before->second.value_or(now_.steady);
    if (const SteadyTime due = *uncounted + kUncountedFor; now_.steady < due) {
      decision_.WakeAt(due);
      return true;
    }
    return Delete(seen);
  }

  // True if the block's deletion has failed, or the Node's lower count cannot be written now, and the next attempt has
  // to wait. Meanwhile the controller deletes other blocks.
  [[nodiscard]] bool IsRefused(const SeenBlock& seen) const {
    const Backoff& backoff = scope_.state.backoff;
    const auto waits = [&](const ObjectKey& key) { return !backoff.MayTry(key, now_.steady); };
    return (backoff.HasFailed(BlockKey(seen.name)) && waits(BlockKey(seen.name))) ||
           (leaving_.contains(seen.name) && waits(NodeKey(seen.block->node)));
  }

  // Called if this decision does not delete the block. If the block is in leaving_, the block stays uncounted until the
  // next decision.
  void KeepLeaving(const SeenBlock& seen) {
    if (const auto before = leaving_.find(seen.name); before != leaving_.end()) left_.insert(*before);
  }

  [[nodiscard]] bool IsCounted(const std::string& pool_uid, const SeenBlock& seen) const {
    const SeenNode* node = scope_.world.nodes.Find(seen.block->node);
    return node != nullptr && scope_.counted.Counts(pool_uid, *node);
  }

  bool Delete(const SeenBlock& seen) {
    Add(DeleteBlock{.block = seen.block, .why = "it is empty, and other nodes have no block"});
    return true;
  }

  [[nodiscard]] bool IsOfGoneNode(const ipam::Block& block) {
    if (block.node.empty()) return false;
    const NodeFacts facts = FactsOf(scope_.world, scope_.suspects, block.node);
    if (IsGone(facts, now_.steady)) return true;
    if (facts.gone_since) decision_.WakeAt(*facts.gone_since + kNodeGoneMin);
    return false;
  }

  // Removes the block of a gone node step by step: first the held entries are freed (decide_orphans.h), then the
  // entries that cannot be read (EndUnheld), then the addresses on standby go, then the block.
  void GiveUp(const SeenBlock& seen) {
    if (seen.entries.held > 0 || seen.entries.unchecked > 0) return EndUnheld(seen.block);
    if (!seen.block->standby.empty()) {
      ipam::Block after = *seen.block;
      after.standby.clear();
      Add(ChangeBlock{.before = seen.block, .after = std::move(after), .gone_node = seen.block->node});
      return;
    }
    const SeenPool* pool = scope_.world.FindPoolByUid(seen.pool_uid);
    const bool is_drained = seen.block->deleting || pool == nullptr || pool->meta.deleting();
    if (is_drained) return;  // so decide_drain.h deletes the block
    if (seen.IsEmpty(now_.unix_ms)) {
      Add(DeleteBlock{.block = seen.block, .why = "its node is gone"});
    } else {
      decision_.WakeAt(seen.CoolsUntil(now_.unix_ms));
    }
  }

  // Does nothing while the block has a readable held entry. Otherwise frees the entries that cannot be read, since
  // nobody can say which pod they belong to, and ends the agent's check of freed entries, since the node has no agent
  // any more.
  void EndUnheld(const ipam::BlockView& block) {
    ipam::Block after = *block;
    for (auto& [offset, text] : after.allocations) {
      ipam::Entry entry = ipam::ParseEntry(text);
      if (std::holds_alternative<ipam::HeldEntry>(entry)) return;
      if (auto* const mark = std::get_if<ipam::CoolingEntry>(&entry); mark != nullptr && !mark->freed.empty()) {
        mark->freed.clear();
        text = ipam::FormatEntry(*mark).value();
      }
      if (!std::holds_alternative<ipam::OpaqueEntry>(entry)) continue;
      const ipam::CoolingEntry cooling{.until_ms = now_.unix_ms + std::chrono::milliseconds(kFreedRest).count(),
                                       .forget = ipam::Attachment(ipam::AttachmentOf(text))};
      text = ipam::FormatEntry(cooling).value();
    }
    Add(ChangeBlock{.before = block, .after = std::move(after), .gone_node = block->node});
  }

  void Add(Action action) {
    if (!writes_.IsFull()) writes_.Add(std::move(action));
  }

  [[nodiscard]] std::map<std::string, Claimer> ClaimersOf(const ipam::Pool& pool,
                                                          const std::vector<OwnedBlock>& blocks) {
    std::map<std::string, Claimer> claimers;
    for (const auto& [name, node] : scope_.world.nodes.all()) {
      if (!node.is_ready || (pool.node_selector && !pool.node_selector->Matches(node.labels))) continue;
      Claimer& claimer = claimers[name];
      if (const auto found = waiting_.find(name); found != waiting_.end()) {
        claimer.waiting = found->second;
        if (now_.steady < found->second + kPodWaitMax) decision_.WakeAt(found->second + kPodWaitMax);
      }
    }
    for (const OwnedBlock& one : blocks) {
      const auto owner = claimers.find(one.seen->block->node);
      if (one.is_going || owner == claimers.end()) continue;
      ++owner->second.blocks;
      owner->second.has_room = owner->second.has_room || scope_.census.FreeIn(one.seen->name) > 0;
    }
    return claimers;
  }

  // The block that has been empty for the longest time comes first.
  [[nodiscard]] std::vector<BlockToGive> Candidates(const std::vector<OwnedBlock>& blocks) const {
    std::vector<BlockToGive> candidates;
    for (const OwnedBlock& one : blocks) {
      const auto since = scope_.empty.Since(one.seen->name);
      if (since && !one.is_going) candidates.push_back({.block = one.seen, .since = *since});
    }
    std::ranges::stable_sort(candidates, {}, &BlockToGive::since);
    return candidates;
  }

  const BlockScope& scope_;
  const Now& now_;
  const LeavingBlocks& leaving_;
  LeavingBlocks left_;  // the next value of leaving_
  // By node and resource: the correction of the Tally by this decision. Minus the free addresses of blocks that begin
  // to leave, plus those of leaving blocks that now stay.
  std::map<std::pair<std::string, std::string>, std::int64_t> changes_;
  Decision& decision_;
  BlockWrites writes_;
  PodAddresses pod_addresses_;
  std::map<std::string, SteadyTime> waiting_;               // by node
  std::map<std::string, std::vector<OwnedBlock>> by_pool_;  // by UID
  std::set<std::string> scarce_;                            // UIDs
};

}  // namespace

void DecideBlocks(const BlockScope& scope, const Now& now, LeavingBlocks& leaving, Decision& decision) {
  BlockPass pass(scope, now, leaving, decision);
  for (const auto& [uid, counted] : scope.pools) pass.DecidePool(uid, counted.pool);
  leaving = pass.TakeLeft();
  decision.scarce = pass.scarce();
}

}  // namespace berth::reconciler
