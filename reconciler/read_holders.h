// SPDX-License-Identifier: Apache-2.0
// Reads the API server's pods, nodes, Leases and IPAllocations into the few fields that the world keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "k8sclient/event_reader.h"
#include "reconciler/allocations.h"
#include "reconciler/nodes.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

inline constexpr std::string_view kPodsPath = "/api/v1/pods";
inline constexpr std::string_view kNodesPath = "/api/v1/nodes";
inline constexpr std::string_view kNodeLeasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
[[nodiscard]] std::string PodPath(const std::string& name_space, const std::string& name);

// A resourceVersion as a number; 0: the text is no number.
[[nodiscard]] std::uint64_t ParseVersion(const std::string& text);
// True if the version of an object that a watch or a list shows is older than the version that the world has. The world
// gets a newer version from the answer to a request of the controller, while the watch lags.
template <typename Shown, typename Known>
[[nodiscard]] bool IsOlder(const Shown& shown, const Known& known) {
  return ParseVersion(shown.resource_version) < ParseVersion(known.resource_version);
}

// Large fields of pods and Nodes that ReadPod and ReadNode do not read, and the fields of containers that ReadPod
// reads.
[[nodiscard]] k8sclient::SkippedFields BulkOfPods();
[[nodiscard]] k8sclient::ItemFields ReadOfContainers();
[[nodiscard]] k8sclient::SkippedFields BulkOfNodes();

// Errors: kInvalid: a field that matters has another type than in Kubernetes.
[[nodiscard]] Expected<SeenPod> ReadPod(nlohmann::json object);
[[nodiscard]] Expected<SeenNode> ReadNode(nlohmann::json object);
[[nodiscard]] Expected<SeenLease> ReadLease(nlohmann::json object);
// Reads an object, or its metadata alone.
[[nodiscard]] Expected<SeenAllocation> ReadAllocation(nlohmann::json object);

}  // namespace berth::reconciler
