// SPDX-License-Identifier: Apache-2.0
// The counted resources that a pod requests, as kube-scheduler and the kubelet count them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reconciler/pods.h"

namespace berth::reconciler {

// The requests of a pod with that spec: the sum of all containers and sidecars, or the most that an init container
// needs together with the sidecars started before it, whichever is more. Source: k8s.io/component-helpers,
// resource/helpers.go.
[[nodiscard]] std::vector<UnitRequest> ReadRequests(const nlohmann::json& pod_spec);

// One unit of each resource in a list such as "ipv4, ipv6". Takes the first kNamedMax names, each once, and leaves out
// what is no name of a resource, as install/overlays/requests/ does.
inline constexpr std::size_t kNamedMax = 16;
[[nodiscard]] std::vector<UnitRequest> ParseResources(std::string_view list);

}  // namespace berth::reconciler
