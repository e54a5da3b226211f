// SPDX-License-Identifier: Apache-2.0
// Reads the API server's pods, nodes, Leases and IPAllocations into the few fields that the world keeps.
#pragma once

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

// These rules leave out large fields of pods and Nodes that ReadPod and ReadNode do not read.
[[nodiscard]] k8sclient::FieldRule FieldsOfPods();
[[nodiscard]] k8sclient::FieldRule FieldsOfNodes();

// Errors: kInvalid: a field that matters has another type than in Kubernetes.
[[nodiscard]] Expected<SeenPod> ReadPod(nlohmann::json object);
[[nodiscard]] Expected<SeenNode> ReadNode(nlohmann::json object);
[[nodiscard]] Expected<SeenLease> ReadLease(nlohmann::json object);
// Reads an IPAllocation, or a PartialObjectMetadata of one.
[[nodiscard]] Expected<SeenAllocation> ReadAllocation(nlohmann::json object);

}  // namespace berth::reconciler
