// SPDX-License-Identifier: Apache-2.0
// Suspects: the held entries of which it is not known that their pods live, and since when.
//
// Kept up rather than taken, as the census is: an entry is looked at again when its block or its pod changed, and all
// of them every five minutes. So a round of a cluster in which all pods live costs one look at each block.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ipam/block.h"
#include "ipam/entry.h"
#include "reconciler/decision.h"
#include "reconciler/held_entries.h"
#include "reconciler/pods.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// What is known of an entry's pod.
enum class Cause : std::uint8_t {
  kVanished,  // it was seen to go, or another has its name by now
  kAbsent,    // there is none, and it was not seen to go
  // It was seen to go while its sandbox was there, or its agent wrote the entry again when it had been freed.
  kLeftSandbox,
  kTerminal,  // Succeeded or Failed
  // It lives, and has another sandbox with other addresses since: the kubelet makes one only when the last has ended.
  kReplaced,
  // Nothing can be known of it: the entry names no pod, or a static pod whose mirror is not there. That a mirror is
  // missing proves nothing.
  kUnknown,
};

struct Suspicion {
  Cause cause = Cause::kUnknown;
  std::chrono::seconds grace{0};  // how long the pod's end may take, where that is known
  SteadyTime since;
  // Of its node's Lease, since then; several that came together are one.
  std::uint64_t renewals = 0;
  std::optional<SteadyTime> first_renewal = {};
};

struct Suspect {
  std::string block;
  ipam::BlockOffset offset = 0;
  std::string text;  // the entry
  ipam::HeldEntry entry;
  std::string node;  // that it is held on
  std::string pool_uid;
  Suspicion suspicion;
  // The version of Leases after which the next renewal counts. Nothing: it has to be asked for (AskLeases).
  std::optional<std::uint64_t> renewed_at = {};
};

// In the place of the network's digits in the attachment of an entry that was put back (decide_lost.h): which network
// it was of is not known. No network has these.
inline constexpr std::string_view kNoNetwork = "000000000000";

// Whose the entry is.
[[nodiscard]] PastPod PastPodOf(const ipam::HeldEntry& entry);

// What the pods say about an entry. Nothing: its pod lives.
[[nodiscard]] std::optional<Suspicion> SuspicionOf(const ipam::HeldEntry& entry, const Pods& pods, SteadyTime now);

class Suspects {
 public:
  // `memory`: what was freed since the last call, and at which version Leases are. Requires: world.knows_holders; every
  // change of `held` is seen here; since the last call no pod was forgotten as touched that was not seen here.
  void Update(const HeldEntries& held, const World& world, const Memory& memory, SteadyTime now);

  [[nodiscard]] const std::map<EntryKey, Suspect>& all() const { return suspects_; }
  // Suspects that a controller freed and that their node's agent has written again since the last Update: their
  // containers are still there.
  [[nodiscard]] const std::vector<EntryKey>& returned() const { return returned_now_; }
  // Since when there has been no such Node and no living pod on it, of nodes that have a block or a suspect.
  [[nodiscard]] std::optional<SteadyTime> GoneSince(const std::string& node) const;

 private:
  void NoteReplaced(const HeldEntries& held, const HeldEntries::Entry& newer, const World& world);
  void Check(const World& world, const HeldEntries::Entry& entry);
  void CheckAll(const HeldEntries& held, const World& world);
  // An entry that was freed: its node's agent has written it again.
  void Return(const World& world, const HeldEntries::Entry& entry);
  void UpdateNodes(const World& world, const Memory& memory);

  SteadyTime now_;
  std::optional<SteadyTime> checked_all_;
  // Entries by the hash of their PodKey: what is found by a hash is looked at again, so a collision does no harm.
  std::unordered_multimap<std::size_t, EntryKey> by_pod_;
  std::map<EntryKey, Suspect> suspects_;
  struct Freed {
    std::string text;
    SteadyTime at;
  };
  std::map<EntryKey, Freed> freed_;  // for an hour: its agent may be away
  std::set<EntryKey> returned_;      // as long as they stand
  std::vector<EntryKey> returned_now_;
  std::set<EntryKey> replaced_;                   // after which another sandbox of their pod was seen to come
  std::map<std::string, SteadyTime> gone_since_;  // by node
};

}  // namespace berth::reconciler
