// SPDX-License-Identifier: Apache-2.0
// Finds which entries to check, and checks them.
#include "reconciler/suspects.h"

#include <algorithm>
#include <string_view>

namespace berth::reconciler {

namespace {

constexpr std::chrono::minutes kCheckAllPeriod{5};
constexpr std::chrono::hours kFreedKept{1};

// The UID of a static pod is the hash of its configuration, which has no dashes.
bool IsStatic(const std::string& uid) { return !uid.empty() && !uid.contains('-'); }

// The interface of the network whose addresses the kubelet reports.
constexpr std::string_view kDefaultInterface = "eth0";

// The suspicion against an entry whose pod does not exist. Another pod may have the same name.
Suspicion Missing(const ipam::HeldEntry& entry, const Pods& pods, SteadyTime now) {
  const PastPod pod = PastPodOf(entry);
  if (const auto vanished = pods.FindVanished(pod)) {
    // The node's agent checks the network namespace in the entry, and keeps the address while the sandbox exists. An
    // entry of a Shared block names its node, and no agent checks such an entry.
    const bool has_proof = !entry.netns.empty() && entry.node.empty();
    const bool may_still_run = vanished->sandbox == SandboxAtEnd::kUnseen && !has_proof;
    const bool is_unknown = vanished->sandbox == SandboxAtEnd::kRunning || may_still_run;
    return {.cause = is_unknown ? Cause::kSandboxUnknown : Cause::kVanished, .grace = vanished->grace, .since = now};
  }
  return {.cause = Cause::kAbsent, .since = now};
}

// True if the block now has, in the place of this entry, a cooling entry that contains this entry (ipam::FreedUnder).
bool IsFreedIn(const World& world, const HeldEntries::Entry& entry) {
  const auto seen = world.blocks().find(entry.key.first);
  if (seen == world.blocks().end() || seen->second.block == nullptr) return false;
  const auto found = seen->second.block->allocations.find(entry.key.second);
  if (found == seen->second.block->allocations.end()) return false;
  const auto freed = ipam::FreedUnder(found->second);
  return freed && freed->text == entry.text;
}

// True if the text begins and ends as Kubernetes names do, and has only their characters. With other characters, the
// path of a request for the pod could name another object. For the namespace "..", an API server always answers 500.
bool IsDnsName(std::string_view text) {
  constexpr std::string_view kEnds = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return !text.empty() && kEnds.contains(text.front()) && kEnds.contains(text.back()) &&
         text.find_first_not_of(kAll) == std::string_view::npos;
}

}  // namespace

bool CanBePod(const ipam::HeldEntry& entry) { return IsDnsName(entry.pod_namespace) && IsDnsName(entry.pod); }

PastPod PastPodOf(const ipam::HeldEntry& entry) { return {NamespacedName(entry.pod_namespace, entry.pod), entry.uid}; }

std::optional<Suspicion> SuspicionOf(const ipam::HeldEntry& entry, const Pods& pods, SteadyTime now) {
  const Suspicion unknown{.cause = Cause::kUnknown, .since = now};
  if (!CanBePod(entry)) return unknown;
  const SeenPod* pod = pods.Find(NamespacedName(entry.pod_namespace, entry.pod));
  const bool is_its = pod != nullptr && (entry.uid.empty() || pod->identity() == entry.uid);
  if (is_its && !pod->is_terminal) return std::nullopt;
  if (is_its) return Suspicion{.cause = Cause::kTerminal, .grace = pod->grace, .since = now};
  const bool is_mirror = pod != nullptr && !pod->config_hash.empty();
  if (IsStatic(entry.uid) && !is_mirror) return unknown;
  return Missing(entry, pods, now);
}

void Suspects::Update(const HeldEntries& held, const World& world, const ControllerState& state, SteadyTime now) {
  now_ = now;
  returned_now_.clear();
  for (const auto& [block, one] : state.freed)
    freed_.insert_or_assign({block, one.offset}, Freed{.text = one.text, .at = now});
  for (const HeldEntries::Place& place : held.went()) {
    const HeldEntries::Entry entry = HeldEntries::Read(place);
    // The previous leader may have freed the entry just before it ended.
    if (IsFreedIn(world, entry)) freed_.insert_or_assign(entry.key, Freed{.text = entry.text, .at = now});
    suspects_.erase(entry.key);
    returned_.erase(entry.key);
    replaced_.erase(entry.key);
  }
  // Do not compare entries that existed at the start with each other, nor entries that came together: nobody knows
  // which of them is newer. Compare a later entry with all earlier ones.
  if (checked_all_) {
    std::set<EntryKey> came;
    for (const HeldEntries::Place& place : held.came()) came.emplace(place.block->name, place.offset);
    for (const HeldEntries::Place& place : held.came()) NoteReplaced(held, came, HeldEntries::Read(place), world);
  }
  for (const HeldEntries::Place& place : held.came()) {
    const HeldEntries::Entry entry = HeldEntries::Read(place);
    const auto found = freed_.find(entry.key);
    if (found != freed_.end() && found->second.text == entry.text) {
      Return(world, entry);
    } else {
      Check(world, entry);
    }
  }
  // An agent may write the entry again so fast that the watch never showed the block without it.
  for (const auto& [block, one] : state.freed) {
    const EntryKey key{block, one.offset};
    if (!returned_.contains(key) && held.Has(key, one.text)) Return(world, held.At(key));
  }
  if (!checked_all_ || now - *checked_all_ >= kCheckAllPeriod) {
    CheckAll(held, world);
  } else {
    for (const PodKey& pod : world.pods.touched()) {
      for (const HeldEntries::Entry& entry : held.Of(pod)) Check(world, entry);
    }
  }
  UpdateNodes(world, state);
}

void Suspects::CheckAll(const HeldEntries& held, const World& world) {
  checked_all_ = now_;
  std::erase_if(freed_, [&](const auto& item) { return item.second.at + kFreedKept < now_; });
  for (const EntryKey& key : held.Keys()) Check(world, held.At(key));
}

void Suspects::Return(const World& world, const HeldEntries::Entry& entry) {
  returned_.insert(entry.key);
  suspects_.erase(entry.key);  // the entry's waiting time restarts
  Check(world, entry);
  if (suspects_.contains(entry.key)) returned_now_.push_back(entry.key);
}

void Suspects::NoteReplaced(const HeldEntries& held, const std::set<EntryKey>& came, const HeldEntries::Entry& newer,
                            const World& world) {
  const ipam::HeldEntry& now = newer.held;
  if (now.uid.empty() || now.interface != kDefaultInterface) return;
  for (const HeldEntries::Entry& older : held.Of(HolderOf(now))) {
    const ipam::HeldEntry& before = older.held;
    // The networks may differ: somebody may have renamed the network.
    const bool is_same = before.pod_namespace == now.pod_namespace && before.pod == now.pod && before.uid == now.uid &&
                         before.interface == now.interface && older.node() == newer.node();
    if (!is_same || before.attachment == now.attachment || before.since_ms >= now.since_ms || came.contains(older.key))
      continue;
    replaced_.insert(older.key);
    Check(world, older);
  }
}

void Suspects::Check(const World& world, const HeldEntries::Entry& entry) {
  auto suspicion = SuspicionOf(entry.held, world.pods, now_);
  if (!suspicion && replaced_.contains(entry.key)) {
    const SeenPod* pod = world.pods.Find(NamespacedName(entry.held.pod_namespace, entry.held.pod));
    const ipam::Address address = entry.block->cidr.At(entry.key.second);
    if (pod->HasOthersThan(address)) suspicion = {.cause = Cause::kReplaced, .grace = pod->grace, .since = now_};
  }
  const bool is_returned = suspicion && suspicion->cause != Cause::kUnknown && returned_.contains(entry.key);
  if (is_returned) suspicion->cause = Cause::kSandboxUnknown;
  if (!suspicion) {
    suspects_.erase(entry.key);
    return;
  }
  const auto found = suspects_.find(entry.key);
  if (found != suspects_.end() && found->second.suspicion.cause == suspicion->cause) return;
  const ipam::Block& block = *entry.block;
  suspects_.insert_or_assign(entry.key,
                             Suspect{.block = entry.key.first,
                                     .offset = entry.key.second,
                                     .text = entry.text,
                                     .entry = entry.held,
                                     .node = entry.node(),
                                     .pool_uid = block.pool_uid,
                                     .suspicion = *suspicion});
}

void Suspects::UpdateNodes(const World& world, const ControllerState& state) {
  std::map<std::string, SteadyTime> gone;
  const auto look_at = [&](const std::string& node) {
    if (node.empty() || world.nodes.Find(node) != nullptr || world.pods.IsAnyLivingOn(node)) return;
    gone.try_emplace(node, GoneSince(node).value_or(now_));
  };
  for (auto& [key, suspect] : suspects_) {
    const SeenNode* const node = world.nodes.Find(suspect.node);
    suspect.node_was_ready = suspect.node_was_ready || (node != nullptr && node->is_ready);
    const std::uint64_t renewed_at = world.nodes.RenewedAt(suspect.node);
    if (!suspect.renewed_at && state.leases && state.leases->asked >= suspect.suspicion.since)
      suspect.renewed_at = state.leases->version;
    if (suspect.renewed_at && renewed_at > *suspect.renewed_at) {
      suspect.renewed_at = renewed_at;
      if (++suspect.suspicion.renewals == 1) suspect.suspicion.first_renewal = now_;
    }
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
