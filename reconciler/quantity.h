// SPDX-License-Identifier: Apache-2.0
// Whole numbers out of Kubernetes quantities: what Nodes and containers say of `ipam.berth.dev/<resource>`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reconciler/pods.h"

namespace berth::reconciler {

// What every counted resource begins with: "ipam.berth.dev/ipv4".
inline constexpr std::string_view kResourcePrefix = "ipam.berth.dev/";

// "3", "3000m", "1k", "2Ki", "3e2"; parts of a unit count as a whole one. Nothing: no quantity, below 0, or above 2^62.
// Source: k8s.io/apimachinery, api/resource/quantity.go.
[[nodiscard]] std::optional<std::int64_t> ParseUnits(std::string_view quantity);

// What a pod with that spec requests of counted resources, as kube-scheduler counts it: the containers and sidecars
// together, or the most that an init container needs beside the sidecars started before it, whichever is more.
[[nodiscard]] std::vector<UnitRequest> ReadRequests(const nlohmann::json& pod_spec);

// The counted resources in a ResourceList (status.capacity and the like), by name without the prefix. A value that is
// no whole number counts as the largest one.
[[nodiscard]] std::map<std::string, std::int64_t> ReadUnits(const nlohmann::json& resource_list);

}  // namespace berth::reconciler
