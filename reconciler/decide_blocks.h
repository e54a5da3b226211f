// SPDX-License-Identifier: Apache-2.0
// Blocks that are given back though their pool lives: those of nodes that are gone, and empty ones where nodes that
// have none could not get one.
//
// Only an empty block goes, by a deletion that requires the version it was seen in: an ADD that wrote meanwhile makes
// it a conflict, one that comes later finds the block being deleted and takes another (decide_drain.h does the rest).
//
// A block whose addresses a Node's number counts leaves in two steps: first the number goes down (decide_numbers.h),
// then, if what is bound still fits, the block goes. While blocks are scarce nobody claims ahead (ipam/claim.h), so
// what was given back stays for who needs it.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/decide_demand.h"
#include "reconciler/decision.h"
#include "reconciler/empty_blocks.h"
#include "reconciler/suspects.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// How long a block rests empty before it is given back, so that a node whose pods come and go keeps it; and up to so
// much longer, so that not all go at once.
inline constexpr std::chrono::seconds kEmptyMin{60};
inline constexpr std::chrono::seconds kEmptyJitter{15};
// A pod that has waited so long for an address does not wait for a block's rest.
inline constexpr std::chrono::seconds kPodWaitMax{10};

// After a Node has stopped counting a block's addresses, so long it is waited whether what is bound still fits.
inline constexpr std::chrono::seconds kUncountedFor{5};

struct BlockScope {
  const World& world;
  const Census& census;  // of `pools`
  const Suspects& suspects;
  const EmptyBlocks& empty;
  const std::map<std::string, CountedPool>& pools;  // by UID
  const CountedPools& counted;
  const Counts& counts;
  const DemandDecider& demand;
};

// Requires: world.knows_holders, and that all of the scope is up to date. Sets decision.scarce. `leaving`: kept from
// decision to decision.
void DecideBlocks(const BlockScope& scope, const Moment& now, LeavingBlocks& leaving, Decision& decision);

}  // namespace berth::reconciler
