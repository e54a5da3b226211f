// SPDX-License-Identifier: Apache-2.0
// Orphans: which held entries may be freed, since their pods are gone and DEL never came. Freeing one too early gives a
// live pod's address to another, so each rule says what proves that no container has the address any more.
//
// A node's containers end with the kubelet's knowledge alone. So a pod that is gone from the API server is waited for:
// until its node's kubelet has been heard of twice since, and for as long as the pod's end may take. What nobody can
// know anything about stays.
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

// Of one that was not seen to vanish, how long its end may take is not known.
inline constexpr std::chrono::seconds kAbsentMin{600};
inline constexpr std::chrono::seconds kTerminalMin{60};
inline constexpr std::chrono::seconds kAfterGrace{10};
inline constexpr std::chrono::minutes kNodeGoneMin{5};
inline constexpr std::uint64_t kRenewalsMin = 2;
// How long a freed address rests, so that a node that heard of it late can still say that it is in use.
inline constexpr std::chrono::seconds kFreedRest{60};

// The brake: so many orphans that nobody saw vanish are more likely an error of ours, or of who restored a backup.
inline constexpr std::size_t kBrakeMin = 50;
inline constexpr std::size_t kBrakePart = 10;  // of all held entries, a tenth

struct NodeFacts {
  bool exists = false;
  bool is_ready = false;
  bool is_out_of_service = false;
  std::optional<SteadyTime> gone_since = {};  // neither a Node nor a living pod on it
};

struct Ruling {
  bool may_free = false;
  bool node_is_gone = false;           // then that is why
  std::string_view why_kept = {};      // for people and metrics; empty if it may be freed
  std::optional<SteadyTime> due = {};  // when time alone may change the ruling
};

[[nodiscard]] NodeFacts FactsOf(const World& world, const Suspects& suspects, const std::string& node);

// Nothing that ran there has an address any more.
[[nodiscard]] bool IsGone(const NodeFacts& node, SteadyTime now);

[[nodiscard]] Ruling Judge(const Suspicion& suspicion, const NodeFacts& node, SteadyTime now);

// The text that takes the place of an entry that is freed: it rests, and the node's agent forgets it. With the entry
// where an agent may write it again: in a block of its own node, if the entry names a network namespace that it can
// look for.
[[nodiscard]] std::string MarkOf(const FreedEntry& freed, const ipam::Block& block, const Moment& now);

struct OrphanScope {
  const World& world;
  const Suspects& suspects;
  std::size_t held;  // entries, of whomever
  const Memory& memory;
  Reclaim mode;
};

// Adds what is to be freed to the decision, and why the rest is kept. kReport: only says what would be freed, once.
// Requires: world.knows_holders.
void DecideOrphans(const OrphanScope& scope, const Moment& now, Decision& decision);

}  // namespace berth::reconciler
