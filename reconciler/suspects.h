// SPDX-License-Identifier: Apache-2.0
// Suspects: the held entries whose pods may be gone, and since when.
//
// Update keeps the suspects of the call before. It checks an entry again if the entry or its pod has changed, and
// checks all entries every 5 minutes. So in a cluster in which all pods live, a pass costs one look at each block.
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
  // The controller saw the pod vanish. The pod's sandbox has ended, or the node's agent can check whether the sandbox's
  // network namespace still exists.
  kVanished,
  kAbsent,  // the pod does not exist, and the controller did not see it vanish
  // The pod is gone, and its sandbox may still exist: somebody deleted the pod by force, or nobody saw the sandbox end
  // and the node's agent cannot check the network namespace. Or the node's agent wrote the entry again after a
  // controller had freed it.
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
  // The next renewal of the node's Lease counts if the Lease then has a later resourceVersion than this. Nothing: the
  // controller first has to ask the API server for the present version of the Leases (AskLeases).
  std::optional<std::uint64_t> renewed_at = {};
  bool node_was_ready = false;  // the node was Ready at some time since the suspicion began
};

// The network's digits in the attachment of an entry that the controller has put back (decide_lost.h): the controller
// does not know the network. No network has these digits.
inline constexpr std::string_view kNoNetwork = "000000000000";

// The pod that the entry names.
[[nodiscard]] PastPod PastPodOf(const ipam::HeldEntry& entry);

// True if a pod can have the name in the entry.
[[nodiscard]] bool CanBePod(const ipam::HeldEntry& entry);

// The suspicion against an entry, as far as `pods` show. Nothing: the entry's pod lives.
[[nodiscard]] std::optional<Suspicion> SuspicionOf(const ipam::HeldEntry& entry, const Pods& pods, SteadyTime now);

class Suspects {
 public:
  // Reads from `state` the entries that the controller freed since the last call, and the version of the Leases.
  // Requires: world.knows_holders; Update sees every change of `held`, and each touched pod before ForgetTouched drops
  // it.
  void Update(const HeldEntries& held, const World& world, const ControllerState& state, SteadyTime now);

  [[nodiscard]] const std::map<EntryKey, Suspect>& all() const { return suspects_; }
  // Suspects that a controller had freed, and that the node's agent wrote again because their containers still exist.
  // Contains only those that the last Update found.
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
  std::map<EntryKey, Freed> freed_;  // kept for 1 h, because the node's agent may be down
  std::set<EntryKey> returned_;      // kept while these entries exist
  std::vector<EntryKey> returned_now_;
  std::set<EntryKey> replaced_;                   // entries whose pod has a newer entry of another sandbox
  std::map<std::string, SteadyTime> gone_since_;  // by node
};

}  // namespace berth::reconciler
