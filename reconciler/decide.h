// SPDX-License-Identifier: Apache-2.0
// Decider: decides what to do, from everything that the controller has seen. No I/O.
//
// The world may be stale. So every write is a compare-and-swap. Some decisions also wait for a relisted world
// (docs/controller.md has a table of them): for example, to accept a pool, to stop withholding an address, or to treat
// an object as gone. A world is relisted if the controller has compared it with consistent lists that began after the
// world was read (relist.h).
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
  bool counts = false;          // whether Nodes show address counts
  int patches_per_second = 20;  // limit for writes of Nodes
  // With the extender: the needs of a pod that requests nothing and has no annotation ipam.berth.dev/resources.
  // nullopt: pods have to request addresses.
  std::optional<std::vector<UnitRequest>> unrequested = {};
};

class Decider {
 public:
  explicit Decider(Settings settings = {}) { kept_.settings = std::move(settings); }

  [[nodiscard]] Decision Decide(const World& world, const ControllerState& state, const Now& now, bool relisted);

  [[nodiscard]] const Settings& settings() const { return kept_.settings; }
  [[nodiscard]] const Suspects& suspects() const { return kept_.suspects; }

  // State that lasts from decision to decision.
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
