// SPDX-License-Identifier: Apache-2.0
// The rule, and which objects to look at.
#include "reconciler/decide_allocations.h"

#include <algorithm>
#include <utility>

namespace berth::reconciler {

namespace {

constexpr std::chrono::milliseconds kRoundsApart{100};

AllocationKey KeyOf(const ipam::HeldEntry& entry) {
  return AllocationKeyOf(entry.pod_namespace, crds::AllocationName(entry.pod, entry.attachment));
}

bool NamesPod(const ipam::HeldEntry& entry) { return !entry.pod_namespace.empty() && !entry.pod.empty(); }

crds::Allocation ToAllocation(const HeldEntries& held, const World& world, const std::set<EntryKey>& entries) {
  crds::Allocation allocation;
  for (const EntryKey& key : entries) {
    const ipam::HeldEntry entry = held.At(key).held;
    const ipam::Block& block = *world.blocks().at(key.first).block;
    allocation.meta.name_space = entry.pod_namespace;
    allocation.meta.name = crds::AllocationName(entry.pod, entry.attachment);
    allocation.pod = entry.pod;
    allocation.uid = entry.uid;
    allocation.interface = entry.interface;
    allocation.node = block.shared() ? entry.node : block.node;
    allocation.addresses.push_back({.address = block.cidr.At(key.second), .pool = block.pool, .block = block.name});
  }
  std::ranges::sort(allocation.addresses, {}, &crds::AllocatedAddress::address);
  return allocation;
}

}  // namespace

AllocationRuling RuleOnAllocation(const AllocationFacts& facts) {
  if (!facts.is_held) {
    const bool is_left = facts.object != nullptr && !facts.object->is_deleting;
    return is_left ? AllocationRuling::kDelete : AllocationRuling::kNothing;
  }
  if (facts.object != nullptr || facts.pod == nullptr || facts.pod->is_terminal) return AllocationRuling::kNothing;
  // The collector would delete it at once.
  if (facts.pod->is_cascading) return AllocationRuling::kNothing;
  return facts.is_old_enough ? AllocationRuling::kMake : AllocationRuling::kLater;
}

void AllocationDecider::Decide(const HeldEntries& held, const World& world, const Moment& now, Decision& decision) {
  Gather(held, world);
  if (!world.knows_allocations) return;
  std::size_t actions = 0;
  // By turns: those that are refused again and again hold up no others.
  auto at = open_.lower_bound(next_);
  for (std::size_t left = open_.size(); left > 0; --left) {
    if (at == open_.end()) at = open_.begin();
    next_ = *at;
    if (actions == kAllocationsPerRound) return decision.WakeAt(now.steady + kRoundsApart);
    const AllocationRuling ruling = RuleOnAllocation(FactsOf(held, world, *at, now));
    if (ruling == AllocationRuling::kNothing) {
      at = open_.erase(at);
      continue;
    }
    if (ruling == AllocationRuling::kLater) {
      decision.WakeAt(now.unix_ms + kAllocationAgeMin.count());
    } else if (ruling == AllocationRuling::kMake) {
      decision.actions.emplace_back(CreateAllocation{.allocation = ToAllocation(held, world, entries_.at(*at))});
      ++actions;
    } else {
      decision.actions.emplace_back(DeleteAllocation{.allocation = world.allocations.all().at(*at)});
      ++actions;
    }
    ++at;
  }
}

void AllocationDecider::Gather(const HeldEntries& held, const World& world) {
  for (const HeldEntries::Entry& entry : held.went()) {
    if (!NamesPod(entry.held)) continue;
    const AllocationKey key = KeyOf(entry.held);
    open_.insert(key);
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    found->second.erase(entry.key);
    if (!found->second.empty()) continue;
    entries_.erase(found);
    const auto of_pod = by_pod_.find(PodKeyOf(entry.held.pod_namespace, entry.held.pod));
    of_pod->second.erase(key);
    if (of_pod->second.empty()) by_pod_.erase(of_pod);
  }
  for (const HeldEntries::Entry& entry : held.came()) {
    if (!NamesPod(entry.held)) continue;
    const AllocationKey key = KeyOf(entry.held);
    entries_[key].insert(entry.key);
    by_pod_[PodKeyOf(entry.held.pod_namespace, entry.held.pod)].insert(key);
    open_.insert(key);
  }
  for (const PodKey& pod : world.pods.touched()) {
    const auto found = by_pod_.find(pod);
    if (found != by_pod_.end()) open_.insert(found->second.begin(), found->second.end());
  }
  if (world.knows_allocations && !std::exchange(saw_all_, true)) {
    for (const auto& [key, allocation] : world.allocations.all()) open_.insert(key);
  }
  for (const AllocationKey& key : world.allocations.touched()) open_.insert(key);
}

AllocationFacts AllocationDecider::FactsOf(const HeldEntries& held, const World& world, const AllocationKey& key,
                                           const Moment& now) {
  AllocationFacts facts;
  const auto object = world.allocations.all().find(key);
  // One whose name is not of this kind is somebody else's.
  const bool is_ours = object != world.allocations.all().end() && !object->second.attachment.empty();
  if (is_ours) facts.object = &object->second;
  const auto entries = entries_.find(key);
  if (entries == entries_.end()) return facts;
  facts.is_held = true;
  const ipam::HeldEntry entry = held.At(*entries->second.begin()).held;
  // A node's clock may be far ahead.
  facts.is_old_enough = entry.since_ms > now.unix_ms + kAllocationAgeMin.count() ||
                        entry.since_ms <= now.unix_ms - kAllocationAgeMin.count();
  // A container has one address of each family; whoever wrote more entries than an IPAllocation takes gets none.
  if (entries->second.size() > crds::kAllocationAddressesMax) return facts;
  const SeenPod* pod = world.pods.Find(PodKeyOf(entry.pod_namespace, entry.pod));
  if (pod != nullptr && !entry.uid.empty() && pod->identity() == entry.uid) facts.pod = pod;
  return facts;
}

}  // namespace berth::reconciler
