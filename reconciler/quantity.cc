// SPDX-License-Identifier: Apache-2.0
// Quantities and the sum of a pod's requests.
#include "reconciler/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

namespace berth::reconciler {

namespace {

using nlohmann::json;
using Units = std::map<std::string, std::int64_t>;

constexpr std::int64_t kUnitsMax = std::int64_t{1} << 62;

constexpr std::array<std::pair<std::string_view, double>, 16> kSuffixes{{{"", 1.0},
                                                                         {"n", 1e-9},
                                                                         {"u", 1e-6},
                                                                         {"m", 1e-3},
                                                                         {"k", 1e3},
                                                                         {"M", 1e6},
                                                                         {"G", 1e9},
                                                                         {"T", 1e12},
                                                                         {"P", 1e15},
                                                                         {"E", 1e18},
                                                                         {"Ki", 1024.0},
                                                                         {"Mi", 1048576.0},
                                                                         {"Gi", 1073741824.0},
                                                                         {"Ti", 1099511627776.0},
                                                                         {"Pi", 1125899906842624.0},
                                                                         {"Ei", 1152921504606846976.0}}};

std::int64_t SaturatingSum(std::int64_t a, std::int64_t b) { return a > kUnitsMax - b ? kUnitsMax : a + b; }

void Add(Units& to, const Units& more) {
  for (const auto& [resource, units] : more) to[resource] = SaturatingSum(to[resource], units);
}

void Raise(Units& to, const Units& least) {
  for (const auto& [resource, units] : least) to[resource] = std::max(to[resource], units);
}

const json& At(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

bool IsSidecar(const json& init_container) {
  const json& policy = At(init_container, "restartPolicy");
  return policy.is_string() && policy.get_ref<const std::string&>() == "Always";
}

}  // namespace

std::optional<std::int64_t> ParseUnits(std::string_view quantity) {
  const char* const end = quantity.data() + quantity.size();
  std::int64_t whole = 0;
  if (const auto [at, error] = std::from_chars(quantity.data(), end, whole); error == std::errc() && at == end) {
    return whole < 0 || whole > kUnitsMax ? std::nullopt : std::optional(whole);
  }
  double number = 0;
  const auto [at, error] = std::from_chars(quantity.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(at, static_cast<std::size_t>(end - at));
  const auto found = std::ranges::find(kSuffixes, suffix, [](const auto& one) { return one.first; });
  if (found == kSuffixes.end()) return std::nullopt;
  const double units = std::ceil(number * found->second);
  if (!(units >= 0 && units <= static_cast<double>(kUnitsMax))) return std::nullopt;
  return static_cast<std::int64_t>(units);
}

Units ReadUnits(const json& resource_list) {
  Units units;
  if (!resource_list.is_object()) return units;
  for (const auto& [name, value] : resource_list.items()) {
    if (!name.starts_with(kResourcePrefix)) continue;
    std::optional<std::int64_t> number;
    if (value.is_string()) number = ParseUnits(value.get_ref<const std::string&>());
    if (value.is_number_integer()) number = ParseUnits(value.dump());
    units.emplace(name.substr(kResourcePrefix.size()), number.value_or(kUnitsMax));
  }
  return units;
}

std::vector<UnitRequest> ReadRequests(const json& pod_spec) {
  Units together;
  const json& containers = At(pod_spec, "containers");
  if (containers.is_array()) {
    for (const json& one : containers) Add(together, ReadUnits(At(At(one, "resources"), "requests")));
  }
  Units peak;
  Units sidecars;
  const json& init_containers = At(pod_spec, "initContainers");
  if (init_containers.is_array()) {
    for (const json& one : init_containers) {
      Units units = ReadUnits(At(At(one, "resources"), "requests"));
      if (IsSidecar(one)) {
        Add(sidecars, units);
        Raise(peak, sidecars);
        continue;
      }
      Add(units, sidecars);
      Raise(peak, units);
    }
  }
  Add(together, sidecars);
  Raise(together, peak);
  std::vector<UnitRequest> requests;
  for (const auto& [resource, units] : together) {
    if (units > 0) requests.push_back({.resource = resource, .units = units});
  }
  return requests;
}

}  // namespace berth::reconciler
