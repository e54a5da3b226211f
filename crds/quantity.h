// SPDX-License-Identifier: Apache-2.0
// Whole numbers from Kubernetes quantities: the numbers of `ipam.berth.dev/<resource>` in Nodes and containers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::crds {

// The beginning of the name of each counted resource: "ipam.berth.dev/ipv4".
inline constexpr std::string_view kResourcePrefix = "ipam.berth.dev/";

// The largest number; also used in place of a number that cannot be parsed.
inline constexpr std::int64_t kUnitsMax = std::int64_t{1} << 62;

// a + b, at most kUnitsMax. Requires: both are between 0 and kUnitsMax.
[[nodiscard]] constexpr std::int64_t SaturatingSum(std::int64_t a, std::int64_t b) {
  return a > kUnitsMax - b ? kUnitsMax : a + b;
}

// Parses "3", "3000m", "1k", "2Ki" or "3e2", and rounds up to a whole number. nullopt: `quantity` is not a quantity, or
// has a sign, more than 30 digits, an exponent beyond 60 or -60, or a value larger than kUnitsMax. Source:
// k8s.io/apimachinery, api/resource/quantity.go.
[[nodiscard]] std::optional<std::int64_t> ParseUnits(std::string_view quantity);

// The counted resources in a ResourceList (status.capacity and the like), by name without the prefix. A value that
// ParseUnits cannot parse counts as kUnitsMax.
[[nodiscard]] std::map<std::string, std::int64_t> ReadUnits(const nlohmann::json& resource_list);
// Like ReadUnits, for status.allocatable of a Node.
[[nodiscard]] std::map<std::string, std::int64_t> AllocatableUnits(const nlohmann::json& node);

}  // namespace berth::crds
