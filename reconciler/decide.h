// SPDX-License-Identifier: Apache-2.0
// Decider: what is to be done, from everything that has been seen. The whole of the controller's mind; no I/O.
//
// A decision on a world that may be stale only does what is safe then: every write is a compare-and-swap, and what is
// withheld only grows. Acceptance, giving up what was withheld, and believing that something is gone wait for a
// relisted world: one that was compared with consistent lists begun after it was seen (relist.h).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/decide_allocations.h"
#include "reconciler/decide_blocks.h"
#include "reconciler/decide_demand.h"
#include "reconciler/decide_lost.h"
#include "reconciler/decide_numbers.h"
#include "reconciler/decide_orphans.h"
#include "reconciler/decision.h"
#include "reconciler/held_entries.h"
#include "reconciler/suspects.h"
#include "reconciler/world.h"

namespace berth::reconciler {

struct Settings {
  Reclaim reclaim = Reclaim::kOff;
  bool keeps_allocations = false;
  bool counts = false;          // Nodes show numbers of addresses
  int patches_per_second = 20;  // of Nodes
  // With the extender: what a pod needs that says nothing of it. Nothing: pods have to request addresses.
  std::optional<std::vector<UnitRequest>> unrequested = {};
};

class Decider {
 public:
  explicit Decider(Settings settings = {})
      : kept_{.settings = std::move(settings),
              .census = {},
              .held = {},
              .suspects = {},
              .empty = {},
              .lost = {},
              .allocations = {},
              .counts = {},
              .numbers = {},
              .demand = {},
              .leaving = {}} {}

  [[nodiscard]] Decision Decide(const World& world, const Memory& memory, const Moment& now, bool relisted);

  [[nodiscard]] const Suspects& suspects() const { return kept_.suspects; }
  [[nodiscard]] const Counts& counts() const { return kept_.counts; }

  // What is kept up from decision to decision.
  struct Kept {
    Settings settings;
    Census census;
    HeldEntries held;
    Suspects suspects;
    EmptyBlocks empty;
    LostEntries lost;
    AllocationDecider allocations;
    Counts counts;
    NumberDecider numbers;
    DemandDecider demand;
    LeavingBlocks leaving;
  };

 private:
  Kept kept_;
};

}  // namespace berth::reconciler
