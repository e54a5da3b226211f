// SPDX-License-Identifier: Apache-2.0
// Summing containers.
#include "reconciler/pod_requests.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "crds/quantity.h"

namespace berth::reconciler {

namespace {

using crds::kUnitsMax;
using crds::ReadUnits;
using nlohmann::json;
using Units = std::map<std::string, std::int64_t>;

std::int64_t SaturatingSum(std::int64_t a, std::int64_t b) { return a > kUnitsMax - b ? kUnitsMax : a + b; }

void Add(Units& to, const Units& more) {
  for (const auto& [resource, units] : more) to[resource] = SaturatingSum(to[resource], units);
}

void Raise(Units& to, const Units& least) {
  for (const auto& [resource, units] : least) to[resource] = std::max(to[resource], units);
}

const json& Member(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

bool IsSidecar(const json& init_container) {
  const json& policy = Member(init_container, "restartPolicy");
  return policy.is_string() && policy.get_ref<const std::string&>() == "Always";
}

}  // namespace

std::vector<UnitRequest> ReadRequests(const json& pod_spec) {
  Units together;
  const json& containers = Member(pod_spec, "containers");
  if (containers.is_array()) {
    for (const json& one : containers) Add(together, ReadUnits(Member(Member(one, "resources"), "requests")));
  }
  Units peak;
  Units sidecars;
  const json& init_containers = Member(pod_spec, "initContainers");
  if (init_containers.is_array()) {
    for (const json& one : init_containers) {
      Units units = ReadUnits(Member(Member(one, "resources"), "requests"));
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
