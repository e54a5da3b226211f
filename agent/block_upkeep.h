// SPDX-License-Identifier: Apache-2.0
// What is due in blocks by and by: entries that have cooled go, and standby follows the pools. Of the keeper's thread.
#pragma once

#include "agent/cluster_view.h"
#include "agent/own_blocks.h"
#include "k8sclient/clock.h"

namespace berth::agent {

void SweepCooled(OwnBlocks& own, k8sclient::Clock& clock);

// What pools do not assign any more is not on standby. Nothing is in blocks that are being deleted, of pools that give
// nothing, or where nobody holds anything of the pool.
void RenewStandby(OwnBlocks& own, const ClusterView& view, k8sclient::Clock& clock);

}  // namespace berth::agent
