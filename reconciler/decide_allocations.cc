// SPDX-License-Identifier: Apache-2.0
// The rule for one IPAllocation, and the choice of the IPAllocations to which the controller applies it.
#include "reconciler/decide_allocations.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace berth::reconciler {

namespace {

constexpr std::chrono::milliseconds kPassesApart{100};

AllocationKey KeyOf(const ipam::HeldEntry& entry) {
  return NamespacedName(entry.pod_namespace, crds::AllocationName(entry.pod, entry.attachment));
}

bool NamesPod(const ipam::HeldEntry& entry) { return !entry.pod_namespace.empty() && !entry.pod.empty(); }

crds::Allocation ToAllocation(const HeldEntries& held, const std::vector<EntryKey>& entries) {
  crds::Allocation allocation;
  for (const EntryKey& key : entries) {
    const HeldEntries::Entry at = held.At(key);
    const ipam::HeldEntry& entry = at.held;
    const ipam::Block& block = *at.block;
    allocation.meta.name_space = entry.pod_namespace;
    allocation.meta.name = crds::AllocationName(entry.pod, entry.attachment);
    allocation.pod = entry.pod;
    allocation.uid = entry.uid;
    allocation.interface = entry.interface;
    allocation.node = at.node();
    allocation.addresses.push_back({.address = block.cidr.At(key.second), .pool = block.pool, .block = block.name});
  }
  std::ranges::sort(allocation.addresses, {}, &crds::AllocatedAddress::address);
  return allocation;
}

}  // namespace

AllocationRuling RuleOnAllocation(const AllocationFacts& facts) {
  const bool is_left = facts.object != nullptr && !facts.object->is_deleting;
  if (!facts.is_held) return is_left ? AllocationRuling::kDelete : AllocationRuling::kNothing;
  if (facts.pod == nullptr || facts.pod->is_terminal) return AllocationRuling::kNothing;
  // Delete the object here: the garbage collector would need three requests for the object, and sends only forty
  // requests a second for all objects.
  if (facts.is_cascading) return is_left ? AllocationRuling::kDelete : AllocationRuling::kNothing;
  if (facts.object != nullptr && (!facts.lacks_family || facts.object->is_deleting)) return AllocationRuling::kNothing;
  if (!facts.is_settled) return AllocationRuling::kLater;
  return facts.object == nullptr ? AllocationRuling::kMake : AllocationRuling::kDelete;
}

void AllocationDecider::Decide(const AllocationScope& scope, const Now& now, Decision& decision) {
  Gather(scope, now.steady);
  if (!scope.world.knows_allocations) return;
  const SteadyTime again = scope.state.backoff.NotBefore(kAllocationsKey);
  if (again > now.steady) return decision.WakeAt(again);
  while (!later_.empty() && later_.begin()->first <= now.steady) {
    open_.insert(std::move(later_.extract(later_.begin()).value().second));
  }
  // Start after the object of the last call. If the API server refuses some objects again and again, the others still
  // get their turn.
  auto at = open_.lower_bound(next_);
  const std::size_t decided = decision.actions.size();
  for (std::size_t left = open_.size(); left > 0; --left) {
    if (at == open_.end()) at = open_.begin();
    next_ = *at;
    if (decision.actions.size() - decided == kAllocationsPerPass) return decision.WakeAt(now.steady + kPassesApart);
    const std::size_t before = decision.actions.size();
    DecideOne(scope, *at, now.steady, decision);
    // After an action the object stays in open_ until the watch has shown the result of the action.
    const bool is_open = decision.actions.size() > before;
    at = is_open ? std::next(at) : open_.erase(at);
  }
  if (!later_.empty()) decision.WakeAt(later_.begin()->first);
}

void AllocationDecider::DecideOne(const AllocationScope& scope, const AllocationKey& key, SteadyTime now,
                                  Decision& decision) {
  const AllocationFacts facts = FactsOf(scope, key, now);
  const AllocationRuling ruling = RuleOnAllocation(facts);
  if (ruling == AllocationRuling::kNothing) return;
  const SteadyTime due = ruling == AllocationRuling::kLater ? holdings_.at(key).settled
                                                            : scope.state.backoff.NotBefore(AllocationObjectKey(key));
  if (due > now) {
    later_.emplace(due, key);
  } else if (ruling == AllocationRuling::kMake) {
    decision.actions.emplace_back(CreateAllocation{.allocation = ToAllocation(scope.held, facts.entries),
                                                   .is_again = holdings_.at(key).is_again});
  } else {
    decision.actions.emplace_back(DeleteAllocation{.allocation = scope.world.allocations.all().at(key)});
  }
}

void AllocationDecider::Gather(const AllocationScope& scope, SteadyTime now) {
  for (const HeldEntries::Place& place : scope.held.went()) {
    const HeldEntries::Entry entry = HeldEntries::Read(place);
    if (!NamesPod(entry.held)) continue;
    const AllocationKey key = KeyOf(entry.held);
    open_.insert(key);
    const auto found = holdings_.find(key);
    if (found == holdings_.end()) continue;
    found->second.entries.erase(entry.key);
    if (found->second.entries.empty()) holdings_.erase(found);
  }
  for (const HeldEntries::Place& place : scope.held.came()) {
    const HeldEntries::Entry entry = HeldEntries::Read(place);
    if (!NamesPod(entry.held)) continue;
    const AllocationKey key = KeyOf(entry.held);
    Holding& holding = holdings_[key];
    holding.entries.insert(entry.key);
    holding.settled = now + kAllocationAgeMin;
    open_.insert(key);
  }
  for (const PodKey& pod : scope.world.pods.touched()) {
    for (const HeldEntries::Entry& entry : scope.held.Of(pod)) open_.insert(KeyOf(entry.held));
  }
  const Allocations& objects = scope.world.allocations;
  if (scope.world.knows_allocations && !std::exchange(saw_all_, true)) {
    for (const auto& [key, allocation] : objects.all()) open_.insert(key);
  }
  for (const AllocationKey& key : objects.touched()) {
    open_.insert(key);
    const auto holding = holdings_.find(key);
    const bool is_gone = holding != holdings_.end() && !objects.all().contains(key);
    if (!is_gone) continue;
    holding->second.settled = now + kAllocationGoneMin;
    holding->second.is_again = true;
  }
}

AllocationFacts AllocationDecider::FactsOf(const AllocationScope& scope, const AllocationKey& key,
                                           SteadyTime now) const {
  AllocationFacts facts;
  const auto& objects = scope.world.allocations.all();
  const auto object = objects.find(key);
  // An object whose name contains no attachment is not berth's.
  const bool is_ours = object != objects.end() && !object->second.attachment.empty();
  if (is_ours) facts.object = &object->second;
  const auto found = holdings_.find(key);
  if (found == holdings_.end()) return facts;
  const Holding& holding = found->second;
  facts.is_held = true;
  facts.is_settled = holding.settled <= now;
  for (const EntryKey& one : holding.entries) {
    const HeldEntries::Entry entry = scope.held.At(one);
    const SeenPod* pod = scope.world.pods.Find(NamespacedName(entry.held.pod_namespace, entry.held.pod));
    if (pod == nullptr || entry.held.uid.empty() || pod->identity() != entry.held.uid) continue;
    if (pod->node != entry.node()) continue;
    facts.pod = pod;
    facts.is_cascading = scope.world.pods.IsCascading(*pod);
    facts.entries.push_back(one);
    if (is_ours && object->second.Lacks(entry.block->cidr.family())) facts.lacks_family = true;
  }
  // A container has one address of each family. If an attachment has more entries than an IPAllocation can list, the
  // controller makes no IPAllocation.
  if (facts.entries.size() > crds::kAllocationAddressesMax) facts.pod = nullptr;
  return facts;
}

}  // namespace berth::reconciler
