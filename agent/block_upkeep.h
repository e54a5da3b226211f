// SPDX-License-Identifier: Apache-2.0
// Regular upkeep of blocks, in the thread of the maintenance loop: removes cooling entries whose time is over, and
// adapts standby to the pools.
#pragma once

#include "agent/cluster_view.h"
#include "agent/own_blocks.h"
#include "k8sclient/clock.h"

namespace berth::agent {

void SweepCooled(OwnBlocks& own, k8sclient::Clock& clock);

// Takes addresses off standby that their pool does not assign any more. A block has no standby if it is being deleted,
// if its pool gives no addresses, or if no pod holds an address of the block.
void RenewStandby(OwnBlocks& own, const ClusterView& view, k8sclient::Clock& clock);

}  // namespace berth::agent
