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

// How long the controller waits if it did not see the pod's deletion, or if nobody saw the end of the pod's sandbox.
// Nobody knows how long the end of such a pod may take.
inline constexpr std::chrono::seconds kAbsentMin{600};
inline constexpr std::chrono::seconds kTerminalMin{60};
inline constexpr std::chrono::seconds kAfterGrace{10};
inline constexpr std::chrono::minutes kNodeGoneMin{5};
inline constexpr std::uint64_t kRenewalsMin = 2;
// How long a freed address cools. Even if the node's agent learns of the freed entry late, the agent can still report
// that a container uses the address.
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
  std::optional<SteadyTime> gone_since = {};  // since when there has been no Node object and no living pod on the node
};

struct Ruling {
  bool may_free = false;
  bool node_is_gone = false;           // the entry may be freed because its node is gone
  std::string_view why_kept = {};      // for people and metrics; empty if the entry may be freed
  std::optional<SteadyTime> due = {};  // when time alone may change the ruling
};

[[nodiscard]] NodeFacts FactsOf(const World& world, const Suspects& suspects, const std::string& node);

// True if the node is gone, so that no container that ran there has an address any more: the Node is out of service and
// not Ready, or gone_since is at least kNodeGoneMin ago.
[[nodiscard]] bool IsGone(const NodeFacts& node, SteadyTime now);

[[nodiscard]] Ruling Judge(const Suspicion& suspicion, const NodeFacts& node, SteadyTime now);

struct OrphanScope {
  const World& world;
  const Suspects& suspects;
  std::size_t held;  // number of held entries, of any pod
  const ControllerState& state;
  Reclaim mode;
};

// Adds to the decision the entries to free, and for each reason the number of suspects that stay (OrphanFindings). With
// kReport, only reports, once, which entries it would free. Requires: world.knows_holders.
void DecideOrphans(const OrphanScope& scope, const Now& now, Decision& decision);

}  // namespace berth::reconciler
