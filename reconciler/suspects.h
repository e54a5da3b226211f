// SPDX-License-Identifier: Apache-2.0
// Suspects: the held entries whose pods may be gone, and since when.
//
// The suspects are kept from update to update, like the census: an entry is checked again when its block or its pod
// changed, and all entries are checked every 5 minutes. So in a cluster in which all pods live, a pass costs one look
// at each block.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipam/block.h"
#include "ipam/entry.h"
#include "reconciler/decision.h"
#include "reconciler/held_entries.h"
#include "reconciler/pods.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Why an entry's pod may be gone.
enum class Cause : std::uint8_t {
  kVanished,  // the controller saw the pod vanish; the sandbox has ended, or an agent can look for it
  kAbsent,    // the pod does not exist, and the controller did not see it vanish
  // The pod is gone, and its sandbox may still exist: somebody deleted the pod by force, or nobody saw the sandbox end
  // and no agent can look for it. Or the agent wrote the entry again after a controller had freed it.
  kSandboxUnknown,
  kTerminal,  // Succeeded or Failed
  // The pod lives, and has had a newer sandbox with other addresses since this entry was written. The kubelet makes a
  // sandbox only when the previous sandbox has ended.
  kReplaced,
  // Nobody can know what became of the pod: the entry names no pod, a name that no pod can have, or a static pod
  // without a mirror. A missing mirror proves nothing.
  kUnknown,
};

struct Suspicion {
  Cause cause = Cause::kUnknown;
  std::chrono::seconds grace{0};  // how long the end of the pod may take, if that is known
  SteadyTime since;
  // Number of renewals of the node's Lease since `since`. Renewals that the watch showed at the same time count as one.
  std::uint64_t renewals = 0;
  std::optional<SteadyTime> first_renewal = {};
};

struct Suspect {
  std::string block;
  ipam::BlockOffset offset = 0;
  std::string text;  // the entry as it stands in the block
  ipam::HeldEntry entry;
  std::string node;  // the node on which the address is held
  std::string pool_uid;
  Suspicion suspicion;
  // A renewal counts if its version is later than this version of the Leases. Nothing: the controller has to ask for it
  // (AskLeases).
  std::optional<std::uint64_t> renewed_at = {};
  bool node_was_ready = false;  // the node was Ready at some time since the suspicion began
};

// Takes the place of the network's digits in the attachment of an entry that was put back (decide_lost.h), because the
// network is unknown. No network has these digits.
inline constexpr std::string_view kNoNetwork = "000000000000";

// The pod that the entry names.
[[nodiscard]] PastPod PastPodOf(const ipam::HeldEntry& entry);

// True if a pod can have the name in the entry.
[[nodiscard]] bool CanBePod(const ipam::HeldEntry& entry);

// The suspicion against an entry, as far as `pods` show. Nothing: the entry's pod lives.
[[nodiscard]] std::optional<Suspicion> SuspicionOf(const ipam::HeldEntry& entry, const Pods& pods, SteadyTime now);

class Suspects {
 public:
  // `state`: the entries that were freed since the last call, and the version of Leases. Requires:
  // world.knows_holders; Update sees every change of `held`, and each touched pod before ForgetTouched drops it.
  void Update(const HeldEntries& held, const World& world, const ControllerState& state, SteadyTime now);

  [[nodiscard]] const std::map<EntryKey, Suspect>& all() const { return suspects_; }
  // Suspects that a controller freed, and that the node's agent has written again since the last Update because their
  // containers still exist.
  [[nodiscard]] const std::vector<EntryKey>& returned() const { return returned_now_; }
  // Since when there has been no Node object of this name and no living pod on the node. Only for nodes with a block or
  // a suspect.
  [[nodiscard]] std::optional<SteadyTime> GoneSince(const std::string& node) const;

 private:
  void NoteReplaced(const HeldEntries& held, const std::set<EntryKey>& came, const HeldEntries::Entry& newer,
                    const World& world);
  void Check(const World& world, const HeldEntries::Entry& entry);
  void CheckAll(const HeldEntries& held, const World& world);
  // Notes that the node's agent has written a freed entry again.
  void Return(const World& world, const HeldEntries::Entry& entry);
  void UpdateNodes(const World& world, const ControllerState& state);

  SteadyTime now_;
  std::optional<SteadyTime> checked_all_;
  std::map<EntryKey, Suspect> suspects_;
  struct Freed {
    std::string text;
    SteadyTime at;
  };
  std::map<EntryKey, Freed> freed_;  // for an hour, because the agent may be away
  std::set<EntryKey> returned_;      // kept while these entries exist
  std::vector<EntryKey> returned_now_;
  std::set<EntryKey> replaced_;                   // entries whose pod has a newer entry of another sandbox
  std::map<std::string, SteadyTime> gone_since_;  // by node
};

}  // namespace berth::reconciler
