// SPDX-License-Identifier: Apache-2.0
// Relist: makes sure that the world shows the present state.
//
// Relist lists spaces, pools and reservations consistently, and then the metadata of all blocks, which is some
// megabytes for 10,000 blocks. Relist lists the spaces first: if a space has accepted a pool and the later list of
// pools lacks the pool, the pool is gone. Relist then reads three kinds of blocks: blocks that the world does not know,
// blocks whose version is older than the world's (the API server was restored from a backup), and changed blocks that a
// decision waits for. Relist lists the blocks last. A node that claims a block reads the pool afterwards. So if the
// block is not in the list, the node sees everything that the controller wrote before the list.
#pragma once

#include <set>

#include "base/error.h"
#include "k8sclient/api.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// `wanted`: the objects that decisions wait for (Decision::wants_relist). Afterwards the world has exactly the blocks
// that exist; the entries of a block may be outdated. An object whose name cannot be read is logged and left out.
// Errors: those of lists and reads. After an error a part of the world may be newer than before.
[[nodiscard]] Expected<void> Relist(k8sclient::Api& api, World& world, const std::set<ObjectKey>& wanted,
                                    const k8sclient::CallOptions& options);

}  // namespace berth::reconciler
