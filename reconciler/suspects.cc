// SPDX-License-Identifier: Apache-2.0
// Which entries to look at, and what was found.
#include "reconciler/suspects.h"

#include <algorithm>
#include <functional>
#include <variant>

namespace berth::reconciler {

namespace {

constexpr std::chrono::minutes kCheckAllPeriod{5};

// The kubelet names a static pod by the hash of its configuration, which has no dashes.
bool IsStatic(const std::string& uid) { return !uid.empty() && !uid.contains('-'); }

std::size_t HashOf(const PodKey& key) { return std::hash<std::string>()(key); }

std::optional<ipam::HeldEntry> ParseHeld(const std::string& text) {
  auto entry = ipam::ParseEntry(text);
  if (auto* held = std::get_if<ipam::HeldEntry>(&entry)) return std::move(*held);
  return std::nullopt;
}

// Of the pod that an entry names by its name alone, or that another has the name of.
Suspicion Missing(const std::string& identity, const Pods& pods, SteadyTime now) {
  if (const auto grace = pods.GraceOfVanished(identity)) {
    return {.cause = Cause::kVanished, .grace = *grace, .since = now};
  }
  return {.cause = Cause::kAbsent, .since = now};
}

}  // namespace

std::optional<Suspicion> SuspicionOf(const ipam::HeldEntry& entry, const Pods& pods, SteadyTime now) {
  const Suspicion unknown{.cause = Cause::kUnknown, .since = now};
  if (entry.pod.empty() || entry.pod_namespace.empty()) return unknown;
  const SeenPod* pod = pods.Find(PodKeyOf(entry.pod_namespace, entry.pod));
  const bool is_its = pod != nullptr && (entry.uid.empty() || pod->identity() == entry.uid);
  if (is_its && !pod->is_terminal) return std::nullopt;
  if (is_its) return Suspicion{.cause = Cause::kTerminal, .grace = pod->grace, .since = now};
  const bool is_mirror = pod != nullptr && !pod->config_hash.empty();
  if (IsStatic(entry.uid) && !is_mirror) return unknown;
  return Missing(entry.uid, pods, now);
}

void Suspects::Update(const World& world, SteadyTime now) {
  now_ = now;
  auto known = blocks_.begin();
  for (const auto& [name, seen] : world.blocks()) {
    while (known != blocks_.end() && known->first < name) {
      UpdateBlock(world, known->first, known->second, nullptr);
      known = blocks_.erase(known);
    }
    const bool is_known = known != blocks_.end() && known->first == name;
    if (!is_known) known = blocks_.emplace_hint(known, name, nullptr);
    if (known->second != seen.block) {
      UpdateBlock(world, name, known->second, seen.block);
      known->second = seen.block;
    }
    ++known;
  }
  while (known != blocks_.end()) {
    UpdateBlock(world, known->first, known->second, nullptr);
    known = blocks_.erase(known);
  }
  if (!checked_all_ || now - *checked_all_ >= kCheckAllPeriod) {
    CheckAll(world);
  } else {
    for (const PodKey& key : world.pods.touched()) {
      const auto [first, last] = by_pod_.equal_range(HashOf(key));
      for (auto at = first; at != last; ++at) {
        const auto& [block, offset] = at->second;
        Check(world, at->second, blocks_.at(block)->allocations.at(offset));
      }
    }
  }
  UpdateNodes(world);
}

void Suspects::UpdateBlock(const World& world, const std::string& name, const ipam::BlockView& before,
                           const ipam::BlockView& after) {
  static const std::map<ipam::BlockOffset, std::string> kNone;
  const auto& old_entries = before == nullptr ? kNone : before->allocations;
  const auto& new_entries = after == nullptr ? kNone : after->allocations;
  for (const auto& [offset, text] : old_entries) {
    const auto found = new_entries.find(offset);
    if (found == new_entries.end() || found->second != text) Drop({name, offset}, text);
  }
  for (const auto& [offset, text] : new_entries) {
    const auto found = old_entries.find(offset);
    if (found == old_entries.end() || found->second != text) Add(world, {name, offset}, text);
  }
}

void Suspects::Add(const World& world, const Key& key, const std::string& text) {
  const auto entry = ParseHeld(text);
  if (!entry) return;
  ++held_;
  by_pod_.emplace(HashOf(PodKeyOf(entry->pod_namespace, entry->pod)), key);
  Check(world, key, text);
}

void Suspects::Drop(const Key& key, const std::string& text) {
  const auto entry = ParseHeld(text);
  if (!entry) return;
  --held_;
  suspects_.erase(key);
  const auto [first, last] = by_pod_.equal_range(HashOf(PodKeyOf(entry->pod_namespace, entry->pod)));
  const auto found = std::find_if(first, last, [&key](const auto& item) { return item.second == key; });
  if (found != last) by_pod_.erase(found);
}

void Suspects::Check(const World& world, const Key& key, const std::string& text) {
  auto entry = ParseHeld(text);
  if (!entry) return;
  const auto suspicion = SuspicionOf(*entry, world.pods, now_);
  if (!suspicion) {
    suspects_.erase(key);
    return;
  }
  const auto found = suspects_.find(key);
  if (found != suspects_.end() && found->second.suspicion.cause == suspicion->cause) return;
  const SeenBlock& block = world.blocks().at(key.first);
  std::string node = block.block->shared() ? entry->node : block.block->node;
  const std::uint64_t renewals = world.nodes.RenewalsOf(node);
  suspects_.insert_or_assign(key,
                             Suspect{.block = key.first,
                                     .offset = key.second,
                                     .text = text,
                                     .entry = *std::move(entry),
                                     .node = std::move(node),
                                     .pool_uid = block.pool_uid,
                                     .suspicion = *suspicion,
                                     .renewals_before = renewals});
}

void Suspects::CheckAll(const World& world) {
  checked_all_ = now_;
  for (const auto& [name, view] : blocks_) {
    if (view == nullptr) continue;
    for (const auto& [offset, text] : view->allocations) Check(world, {name, offset}, text);
  }
}

void Suspects::UpdateNodes(const World& world) {
  std::map<std::string, SteadyTime> gone;
  const auto look_at = [&](const std::string& node) {
    if (node.empty() || world.nodes.Find(node) != nullptr || world.pods.IsAnyOn(node)) return;
    gone.try_emplace(node, GoneSince(node).value_or(now_));
  };
  for (auto& [key, suspect] : suspects_) {
    const std::uint64_t renewals = world.nodes.RenewalsOf(suspect.node);
    // A Lease that was made anew is counted from its beginning.
    suspect.renewals_before = std::min(suspect.renewals_before, renewals);
    suspect.suspicion.renewals = renewals - suspect.renewals_before;
    if (suspect.suspicion.renewals > 0 && !suspect.suspicion.first_renewal) suspect.suspicion.first_renewal = now_;
    look_at(suspect.node);
  }
  for (const auto& [name, seen] : world.blocks()) {
    if (seen.block != nullptr) look_at(seen.block->node);
  }
  gone_since_ = std::move(gone);
}

std::optional<SteadyTime> Suspects::GoneSince(const std::string& node) const {
  const auto found = gone_since_.find(node);
  return found == gone_since_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace berth::reconciler
