// SPDX-License-Identifier: Apache-2.0
// Orphans: which held entries may be freed, because their pods are gone and no DEL came. If the controller frees an
// entry too early, another pod gets the address of a live pod. So each rule says what proves that no container has the
// address any more.
//
// A kubelet ends a pod's containers only after it has learned that the pod is gone. So after a pod is gone from the API
// server, the controller waits until the kubelet of the pod's node has renewed its Lease twice, and for as long as the
// end of the pod may take. If nobody can know what became of a pod, its entry stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reconciler/decision.h"
#include "reconciler/suspects.h"
#include "reconciler/world.h"

namespace berth::reconciler {

enum class Reclaim : std::uint8_t { kOff, kReport, kOn };

// Wait for a pod whose deletion the controller did not see, or whose sandbox nobody saw end: nobody knows how long the
// end may take.
inline constexpr std::chrono::seconds kAbsentMin{600};
inline constexpr std::chrono::seconds kTerminalMin{60};
inline constexpr std::chrono::seconds kAfterGrace{10};
inline constexpr std::chrono::minutes kNodeGoneMin{5};
inline constexpr std::uint64_t kRenewalsMin = 2;
// How long a freed address cools, so that a node which learns of it late can still say that the address is in use.
inline constexpr std::chrono::seconds kFreedRest{60};

// The brake: if at least kBrakeMin entries, and more than a tenth of all held entries, name pods whose deletion nobody
// saw, the controller frees no entry. So many orphans are more likely a mistake of berth, or of a person who restored a
// backup.
inline constexpr std::size_t kBrakeMin = 50;
inline constexpr std::size_t kBrakePart = 10;  // a tenth of all held entries

struct NodeFacts {
  bool exists = false;
  bool is_ready = false;
  bool is_out_of_service = false;
  std::optional<SteadyTime> gone_since = {};  // since when there has been neither a Node nor a living pod on it
};

struct Ruling {
  bool may_free = false;
  bool node_is_gone = false;           // the entry may be freed because its node is gone
  std::string_view why_kept = {};      // for people and metrics; empty if the entry may be freed
  std::optional<SteadyTime> due = {};  // when time alone may change the ruling
};

[[nodiscard]] NodeFacts FactsOf(const World& world, const Suspects& suspects, const std::string& node);

// True if nothing that ran on the node has an address any more.
[[nodiscard]] bool IsGone(const NodeFacts& node, SteadyTime now);

[[nodiscard]] Ruling Judge(const Suspicion& suspicion, const NodeFacts& node, SteadyTime now);

// The text that replaces a freed entry: it cools, and tells the node's agent to forget the attachment. The text
// contains the old entry if an agent may write that entry again: in a block of the agent's own node, if the entry names
// a network namespace for which the agent can look.
[[nodiscard]] std::string MarkOf(const FreedEntry& freed, const ipam::Block& block, const Now& now);

struct OrphanScope {
  const World& world;
  const Suspects& suspects;
  std::size_t held;  // number of held entries, of any pod
  const ControllerState& state;
  Reclaim mode;
};

// Adds the entries to free to the decision, and says why the others are kept. kReport: only reports, once, what it
// would free. Requires: world.knows_holders.
void DecideOrphans(const OrphanScope& scope, const Now& now, Decision& decision);

}  // namespace berth::reconciler
