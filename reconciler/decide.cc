// SPDX-License-Identifier: Apache-2.0
// One decision: first finds which pools are accepted and which addresses are withheld, then counts addresses, then
// decides which objects to write.
#include "reconciler/decide.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "crds/names.h"
#include "reconciler/decide_acceptance.h"
#include "reconciler/decide_drain.h"
#include "reconciler/decide_reserved.h"
#include "reconciler/decide_status.h"
#include "reconciler/extender_snapshot.h"
#include "reconciler/withheld.h"

namespace berth::reconciler {

namespace {

constexpr std::int64_t kThawPeriodMs = 1000;

struct SpacePlan {
  const crds::Space* current = nullptr;  // nullptr: the space does not exist
  std::vector<std::string> pools;        // names of the readable pools that name the space
  Acceptance acceptance;
  std::vector<ReservedRange> reserved;
  ipam::IntervalSet withheld;
  bool may_stop_withholding = true;
};

std::vector<std::string> With(std::vector<std::string> finalizers, std::string_view finalizer) {
  finalizers.emplace_back(finalizer);
  return finalizers;
}

// One call of Decide.
class Pass {
 public:
  Pass(const World& world, const ControllerState& state, const Now& now, bool relisted, Decider::Kept& kept)
      : world_(world), state_(state), now_(now), relisted_(relisted), kept_(kept), census_(kept.census) {}

  Decision Run() && {
    PlanSpaces();
    PlanPools();
    census_.Take(world_, counted_, now_.unix_ms);
    if (world_.knows_holders) kept_.held.Update(world_);
    kept_.empty.Update(world_, now_);
    if (kept_.settings.counts) counted_pools_ = CountedPools(world_, counted_);
    if (world_.knows_holders) {
      kept_.counts.Update({.world = world_,
                           .census = census_,
                           .pools = counted_pools_,
                           .held = kept_.held,
                           .leaving = kept_.leaving,
                           .defaults = kept_.settings.unrequested ? &*kept_.settings.unrequested : nullptr});
      if (kept_.settings.unrequested) {
        decision_.extender_snapshot =
            SnapshotOf({.world = world_, .census = census_, .pools = counted_, .counts = kept_.counts});
        decision_.WakeAt(now_.steady + kSnapshotPeriod);
      }
    }
    // Address counts come first, because the lists of pods on which they depend grow old while other actions take their
    // time.
    std::vector<ListPods> lists;
    if (world_.knows_holders) {
      lists = kept_.numbers.Decide(
          {.world = world_, .counts = kept_.counts, .state = state_, .counts_pools = kept_.settings.counts},
          now_,
          decision_);
    }
    if (world_.knows_holders && kept_.settings.counts) {
      kept_.demand.Decide(
          {.world = world_, .census = census_, .counts = kept_.counts, .pools = counted_pools_}, now_, decision_);
    }
    DecideReclaimed();
    for (const auto& [name, plan] : plans_) {
      if (!IsLeftAlone(plan)) DecideSpace(name, plan);
    }
    for (const auto& [name, pool] : world_.pools) DecidePoolStatus(pool);
    for (const auto& [name, plan] : plans_) {
      if (!IsLeftAlone(plan)) DecideReservedIn(name, plan);
    }
    DecideBlockDrain({.world = world_, .empty = kept_.empty, .state = state_, .now = now_, .relisted = relisted_},
                     decision_);
    DecidePoolDrain(world_, relisted_, decision_);
    // The lists come near the end, so that the next pass can write the counts while the lists are new.
    for (ListPods& list : lists) decision_.actions.push_back(std::move(list));
    // IPAllocations come last, because nothing waits for them.
    if (world_.knows_holders && kept_.settings.keeps_allocations) {
      kept_.allocations.Decide({.held = kept_.held, .world = world_, .state = state_}, now_, decision_);
    }
    if (const auto expiry = NextExpiry(world_, now_.unix_ms)) decision_.WakeAt(*expiry);
    if (const auto thaw = census_.next_change_ms()) {
      decision_.WakeAt(std::max(*thaw, now_.unix_ms + kThawPeriodMs));
    }
    return std::move(decision_);
  }

 private:
  // Decides about addresses of pods that are gone, lost entries, blocks of nodes that are gone, and blocks that other
  // nodes need.
  void DecideReclaimed() {
    const Reclaim mode = kept_.settings.reclaim;
    // The empty set ends the condition Scarce: in this mode the controller deletes no blocks for other nodes, so no
    // node should wait for one.
    if (mode != Reclaim::kOn) decision_.scarce.emplace();
    if (mode == Reclaim::kOff || !world_.knows_holders) return;
    kept_.suspects.Update(kept_.held, world_, state_, now_.steady);
    DecideOrphans(
        {.world = world_, .suspects = kept_.suspects, .held = kept_.held.count(), .state = state_, .mode = mode},
        now_,
        decision_);
    if (mode != Reclaim::kOn) return;
    kept_.lost.Decide(world_, state_, now_, decision_);
    DecideBlocks({.world = world_,
                  .census = census_,
                  .suspects = kept_.suspects,
                  .empty = kept_.empty,
                  .pools = counted_,
                  .counted = counted_pools_,
                  .counts = kept_.counts,
                  .demand = kept_.demand,
                  .state = state_},
                 now_,
                 kept_.leaving,
                 decision_);
  }

  void PlanSpaces() {
    for (const auto& [name, space] : world_.spaces) plans_[name].current = &space;
    for (const auto& [name, pool] : world_.pools) {
      if (pool.pool) plans_[pool.pool->space].pools.push_back(name);
    }
    for (auto& [name, plan] : plans_) {
      if (IsLeftAlone(plan)) continue;
      plan.acceptance = DecideAcceptance(world_, name, plan.pools, AcceptedIn(plan));
      plan.reserved = ReservedRanges(world_, name, now_.unix_ms);
      const std::vector<crds::AcceptedPool>& accepted =
          MayChangeList(plan) ? plan.acceptance.accepted : AcceptedIn(plan);
      plan.withheld = WithheldSet(world_, accepted, plan.reserved);
      plan.may_stop_withholding = MayStopWithholding(world_, name, accepted);
    }
  }

  // Sets counted_: the pools that their spaces have accepted, each with the addresses to withhold from it.
  void PlanPools() {
    counted_ = AcceptedPools(world_);
    for (auto& [uid, counted] : counted_) {
      const SpacePlan& plan = plans_.at(counted.pool.space);
      counted.pool.withheld = Withhold(plan,
                                       plan.withheld.Intersection(ipam::AddressRange::Of(counted.pool.subnet)),
                                       counted.pool.withheld,
                                       crds::kPoolWithheldMax,
                                       PoolKey(counted.pool.name));
    }
  }

  // The ranges to withhold: `exact`, and also `current` unless it is safe to stop withholding. At most `limit` ranges.
  std::vector<ipam::AddressRange> Withhold(const SpacePlan& plan, const ipam::IntervalSet& exact,
                                           const std::vector<ipam::AddressRange>& current, std::size_t limit,
                                           const ObjectKey& key) {
    std::vector<ipam::AddressRange> wanted = AtMost(exact, limit);
    if (relisted_ && plan.may_stop_withholding) return wanted;
    std::vector<ipam::AddressRange> both = wanted;
    both.insert(both.end(), current.begin(), current.end());
    both = AtMost(ipam::IntervalSet(both), limit);
    if (both != wanted && plan.may_stop_withholding) decision_.wants_relist.insert(key);
    return both;
  }

  void DecideSpace(const std::string& name, const SpacePlan& plan) {
    for (const std::string& pool : plan.acceptance.need_finalizer) AddPoolFinalizer(pool);
    if (plan.current == nullptr) {
      const bool is_needed = !plan.acceptance.accepted.empty() || !plan.acceptance.need_finalizer.empty();
      if (is_needed) decision_.actions.push_back(CreateSpace{.space = name});
      return;
    }
    const crds::Space& current = *plan.current;
    for (const crds::AcceptedPool& entry : current.accepted) {
      const SeenPool* pool = world_.FindPoolByUid(entry.uid);
      if (pool != nullptr && !HasFinalizer(pool->meta.finalizers, crds::kPoolFinalizer))
        AddPoolFinalizer(pool->meta.name);
    }
    if (DecideSpaceEnd(name, plan)) return;
    DecideSpaceStatus(name, plan);
  }

  void AddPoolFinalizer(const std::string& name) {
    const SeenPool& pool = world_.pools.at(name);
    // The API server refuses a new finalizer on an object with a deletionTimestamp.
    if (pool.meta.deleting()) return;
    decision_.actions.push_back(SetFinalizers{
        .collection = crds::kPoolsPath, .name = name, .finalizers = With(pool.meta.finalizers, crds::kPoolFinalizer)});
  }

  void DecideSpaceStatus(const std::string& name, const SpacePlan& plan) {
    const crds::Space& current = *plan.current;
    crds::Space wanted = current;
    if (plan.acceptance.accepted != current.accepted) {
      if (MayChangeList(plan)) {
        wanted.accepted = plan.acceptance.accepted;
      } else if (!IsKept(current)) {
        AddSpaceFinalizer(current);
      } else {
        decision_.wants_relist.insert(SpaceKey(name));
      }
    }
    wanted.withheld = Withhold(plan, plan.withheld, current.withheld, crds::kSpaceWithheldMax, SpaceKey(name));
    auto status = StatusOfSpace(current,
                                std::move(wanted),
                                census_.OfSpace(name),
                                {.counts_written = Written(state_.space_counts_written, name), .now = now_});
    if (status.wake) decision_.WakeAt(*status.wake);
    const bool differs = status.has_new_counts || status.status.accepted != current.accepted ||
                         status.status.withheld != current.withheld;
    if (!differs) return;
    decision_.actions.push_back(
        SetSpaceStatus{.after = std::move(status.status), .has_new_counts = status.has_new_counts});
  }

  // Adds the finalizer, so that nobody can delete a list of accepted pools that is in force. If the space is being
  // deleted without the finalizer, the controller creates the space again after the deletion.
  void AddSpaceFinalizer(const crds::Space& space) {
    if (space.meta.deleting()) return;
    decision_.actions.push_back(SetFinalizers{.collection = crds::kSpacesPath,
                                              .name = space.meta.name,
                                              .finalizers = With(space.meta.finalizers, crds::kPoolFinalizer)});
  }

  // If no pool and no block names the space any more, deletes the space, which has the controller's finalizer. True:
  // the space is to be deleted, so the controller writes nothing else to it.
  bool DecideSpaceEnd(const std::string& name, const SpacePlan& plan) {
    const crds::Space& current = *plan.current;
    if (!IsKept(current) || !current.accepted.empty() || !plan.acceptance.accepted.empty()) return false;
    if (!plan.acceptance.need_finalizer.empty()) return false;
    if (current.meta.deleting()) {
      decision_.actions.push_back(SetFinalizers{.collection = crds::kSpacesPath,
                                                .name = name,
                                                .finalizers = Without(current.meta.finalizers, crds::kPoolFinalizer)});
      return true;
    }
    const auto is_unreadable = [](const auto& item) { return !item.second.pool; };
    const auto is_in_space = [&](const auto& item) { return item.second.space == name; };
    if (!plan.pools.empty() || std::ranges::any_of(world_.pools, is_unreadable) ||
        std::ranges::any_of(world_.blocks(), is_in_space)) {
      return false;
    }
    if (relisted_) {
      decision_.actions.push_back(DeleteSpace{.space = name});
    } else {
      decision_.wants_relist.insert(SpaceKey(name));
    }
    return true;
  }

  void DecidePoolStatus(const SeenPool& pool) {
    const SpacePlan* plan = pool.pool ? &plans_.at(pool.pool->space) : nullptr;
    const Reason* refused = nullptr;
    if (plan != nullptr) {
      static const Reason kUnreadable = {
          .reason = "SpaceUnreadable",
          .message = "the IPSpace cannot be read: the controller's log says what is wrong with its status"};
      const auto found = plan->acceptance.refused.find(pool.meta.name);
      if (found != plan->acceptance.refused.end()) refused = &found->second;
      if (IsLeftAlone(*plan)) refused = pool.IsReady() ? nullptr : &kUnreadable;
    }
    const auto counted = counted_.find(pool.meta.uid);
    const bool is_accepted = counted != counted_.end();
    const auto readiness = ReadinessOf(pool, is_accepted, refused);
    if (!readiness) return;
    if (!is_accepted) {
      // If the pool is Ready, its space has accepted it before, and the world may show an old state of the space.
      if (pool.IsReady() && !pool.meta.deleting() && !relisted_) {
        decision_.wants_relist.insert(PoolKey(pool.meta.name));
        return;
      }
      crds::PoolStatus status = pool.status;
      SetReadiness(status, pool, *readiness, now_);
      AddPoolStatus(pool, {.status = std::move(status), .has_new_counts = false, .wake = std::nullopt});
      return;
    }
    AddPoolStatus(
        pool,
        StatusOfAccepted(pool,
                         counted->second,
                         census_.OfPool(pool.meta.uid),
                         *readiness,
                         {.counts_written = Written(state_.pool_counts_written, pool.meta.uid), .now = now_}));
  }

  void AddPoolStatus(const SeenPool& pool, Wanted<crds::PoolStatus> wanted) {
    static const std::vector<ContestedAddress> kNone;
    // Unless reclaiming is off, the controller leaves the condition Reclaiming unchanged until it knows the pods.
    const Reclaim mode = kept_.settings.reclaim;
    if (world_.knows_holders || mode == Reclaim::kOff) {
      const auto unseen = decision_.orphans.unseen.find(pool.meta.uid);
      const bool is_braked = decision_.orphans.is_braked && unseen != decision_.orphans.unseen.end();
      if (is_braked || mode == Reclaim::kOn) {
        SetReclaiming(wanted.status, pool, is_braked ? unseen->second : 0, now_);
      } else {
        std::erase_if(wanted.status.conditions, [](const auto& one) { return one.type == kReclaimingCondition; });
      }
    }
    if (decision_.contested) {
      const auto contested = decision_.contested->find(pool.meta.uid);
      SetContested(wanted,
                   pool,
                   contested == decision_.contested->end() ? kNone : contested->second,
                   {.counts_written = Written(state_.pool_counts_written, pool.meta.uid), .now = now_});
    }
    if (decision_.scarce) SetScarce(wanted.status, pool, decision_.scarce->contains(pool.meta.uid), now_);
    SetCounted(wanted.status, pool, counted_pools_.of_mixed_namespaces().contains(pool.meta.uid), now_);
    if (wanted.wake) decision_.WakeAt(*wanted.wake);
    if (wanted.status == pool.status) return;
    decision_.actions.push_back(SetPoolStatus{
        .pool = pool.meta.name, .status = std::move(wanted.status), .has_new_counts = wanted.has_new_counts});
  }

  void DecideReservedIn(const std::string& name, const SpacePlan& plan) {
    std::map<std::string, ipam::Pool> pools;
    for (const std::string& pool_name : plan.pools) {
      const SeenPool& seen = world_.pools.at(pool_name);
      const auto counted = counted_.find(seen.meta.uid);
      if (counted != counted_.end() && !seen.meta.deleting()) pools.emplace(seen.meta.uid, counted->second.pool);
    }
    DecideReserved({.world = world_,
                    .state = state_,
                    .pools = pools,
                    .now = now_,
                    .relisted = relisted_,
                    .knows_pods = world_.knows_holders || kept_.settings.reclaim == Reclaim::kOff},
                   {.space = name, .reserved = plan.reserved, .may_stop_withholding = plan.may_stop_withholding},
                   decision_);
  }

  static const std::vector<crds::AcceptedPool>& AcceptedIn(const SpacePlan& plan) {
    static const std::vector<crds::AcceptedPool> kNone;
    return plan.current == nullptr ? kNone : plan.current->accepted;
  }

  static bool IsLeftAlone(const SpacePlan& plan) { return plan.current != nullptr && IsUnreadable(*plan.current); }

  static bool IsKept(const crds::Space& space) { return HasFinalizer(space.meta.finalizers, crds::kPoolFinalizer); }

  [[nodiscard]] bool MayChangeList(const SpacePlan& plan) const {
    return relisted_ && plan.current != nullptr && IsKept(*plan.current);
  }

  static std::optional<SteadyTime> Written(const std::map<std::string, SteadyTime>& written, const std::string& key) {
    const auto found = written.find(key);
    return found == written.end() ? std::nullopt : std::optional(found->second);
  }

  const World& world_;
  const ControllerState& state_;
  const Now& now_;
  bool relisted_;
  Decider::Kept& kept_;
  Census& census_;
  std::map<std::string, SpacePlan> plans_;      // by name of the space
  std::map<std::string, CountedPool> counted_;  // by UID of the pool
  CountedPools counted_pools_;
  Decision decision_;
};

}  // namespace

Decision Decider::Decide(const World& world, const ControllerState& state, const Now& now, bool relisted) {
  return Pass(world, state, now, relisted, kept_).Run();
}

}  // namespace berth::reconciler
