// SPDX-License-Identifier: Apache-2.0
// Deletes blocks of pools that stay: blocks of nodes that are gone, and empty blocks if other nodes want more blocks
// than the pool has unclaimed ones.
//
// The controller deletes a block only by a request that contains the version at which the block was empty. If an ADD
// has written the block since, the API server answers with a conflict. A later ADD finds that the block is being
// deleted, and uses another block. decide_drain.h then removes the block's finalizer.
//
// If a Node's address count includes the block, the block is deleted in two steps: first the count falls
// (decide_numbers.h); then, if the requests of the bound pods still fit, the controller deletes the block. While blocks
// are scarce no node claims in advance (ipam/claim.h), so the deleted block is left for a node that needs it.
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

// How long a block has to be empty before the controller deletes it, so that a node whose pods come and go keeps the
// block. Up to kEmptyJitter is added, so that not all blocks go at once.
inline constexpr std::chrono::seconds kEmptyMin{60};
inline constexpr std::chrono::seconds kEmptyJitter{15};
// If a pod has waited this long for an address, a block has to be empty for kSeenEmptyMin only.
inline constexpr std::chrono::seconds kPodWaitMax{10};

// After a Node has stopped counting a block's addresses, the block stays for this long, and is deleted only if the
// bound pods still fit.
inline constexpr std::chrono::seconds kUncountedFor{5};

struct BlockScope {
  const World& world;
  const Census& census;  // counts of `pools`
  const Suspects& suspects;
  const EmptyBlocks& empty;
  const std::map<std::string, CountedPool>& pools;  // by UID
  const CountedPools& counted;
  const Counts& counts;
  const DemandDecider& demand;
  const ControllerState& state;
};

// Sets decision.scarce. `leaving`: the caller keeps this value from call to call. Requires: world.knows_holders;
// everything in the scope is up to date.
void DecideBlocks(const BlockScope& scope, const Now& now, LeavingBlocks& leaving, Decision& decision);

}  // namespace berth::reconciler
