// SPDX-License-Identifier: Apache-2.0
// The key by which the world knows an object of each kind, and the object's version.
#pragma once

#include <cstdint>
#include <string>

#include "k8sclient/resource_version.h"
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

// The version as a number. 0 for a kind whose objects only the watch puts into the world.
inline std::uint64_t VersionOf(const SeenPool& pool) { return k8sclient::ParseVersion(pool.meta.resource_version); }
inline std::uint64_t VersionOf(const crds::Space& space) {
  return k8sclient::ParseVersion(space.meta.resource_version);
}
inline std::uint64_t VersionOf(const SeenBlock& block) { return k8sclient::ParseVersion(block.resource_version); }
inline std::uint64_t VersionOf(const SeenNode& node) { return k8sclient::ParseVersion(node.resource_version); }
template <typename Seen>
std::uint64_t VersionOf(const Seen& /*object*/) {
  return 0;
}

}  // namespace berth::reconciler
