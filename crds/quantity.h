// SPDX-License-Identifier: Apache-2.0
// Whole numbers out of Kubernetes quantities: what Nodes and containers say of `ipam.berth.dev/<resource>`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::crds {

// What every counted resource begins with: "ipam.berth.dev/ipv4".
inline constexpr std::string_view kResourcePrefix = "ipam.berth.dev/";

// What stands for a number that cannot be read, and the largest that is read.
inline constexpr std::int64_t kUnitsMax = std::int64_t{1} << 62;

// a + b, at most kUnitsMax. Requires: both are between 0 and kUnitsMax.
[[nodiscard]] constexpr std::int64_t SaturatingSum(std::int64_t a, std::int64_t b) {
  return a > kUnitsMax - b ? kUnitsMax : a + b;
}

// "3", "3000m", "1k", "2Ki", "3e2"; parts of a unit count as a whole one. Nothing: no quantity, below 0, or above
// kUnitsMax. Source: k8s.io/apimachinery, api/resource/quantity.go.
[[nodiscard]] std::optional<std::int64_t> ParseUnits(std::string_view quantity);

// The counted resources in a ResourceList (status.capacity and the like), by name without the prefix. A value that is
// no whole number counts as kUnitsMax.
[[nodiscard]] std::map<std::string, std::int64_t> ReadUnits(const nlohmann::json& resource_list);
// The same of a Node's status.allocatable.
[[nodiscard]] std::map<std::string, std::int64_t> AllocatableUnits(const nlohmann::json& node);

}  // namespace berth::crds
