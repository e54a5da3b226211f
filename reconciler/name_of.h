// SPDX-License-Identifier: Apache-2.0
// The key by which the world knows an object of each kind.
#pragma once

#include <string>

#include "reconciler/allocations.h"
#include "reconciler/nodes.h"
#include "reconciler/pods.h"
#include "reconciler/world.h"

namespace berth::reconciler {

inline const std::string& NameOf(const SeenPool& pool) { return pool.meta.name; }
inline const std::string& NameOf(const crds::Space& space) { return space.meta.name; }
inline const std::string& NameOf(const SeenReservation& reservation) { return reservation.name; }
inline const std::string& NameOf(const SeenBlock& block) { return block.name; }
inline PodKey NameOf(const SeenPod& pod) { return PodKeyOf(pod.name_space, pod.name); }
inline const std::string& NameOf(const SeenNode& node) { return node.name; }
inline AllocationKey NameOf(const SeenAllocation& one) { return AllocationKeyOf(one.name_space, one.name); }
inline const std::string& NameOf(const SeenLease& lease) { return lease.node; }

}  // namespace berth::reconciler
