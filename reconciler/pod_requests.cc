// SPDX-License-Identifier: Apache-2.0
// Sums the requests of containers.
#include "reconciler/pod_requests.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "crds/quantity.h"
#include "k8sclient/text_at.h"

namespace berth::reconciler {

namespace {

using crds::ReadUnits;
using crds::SaturatingSum;
using k8sclient::ValueAt;
using nlohmann::json;
using Units = std::map<std::string, std::int64_t>;

void Add(Units& to, const Units& more) {
  for (const auto& [resource, units] : more) to[resource] = SaturatingSum(to[resource], units);
}

void Raise(Units& to, const Units& least) {
  for (const auto& [resource, units] : least) to[resource] = std::max(to[resource], units);
}

bool IsSidecar(const json& init_container) { return k8sclient::TextAt(init_container, "restartPolicy") == "Always"; }

}  // namespace

std::vector<UnitRequest> ReadRequests(const json& pod_spec) {
  Units together;
  const json& containers = ValueAt(pod_spec, "containers");
  if (containers.is_array()) {
    for (const json& one : containers) Add(together, ReadUnits(ValueAt(ValueAt(one, "resources"), "requests")));
  }
  Units peak;
  Units sidecars;
  const json& init_containers = ValueAt(pod_spec, "initContainers");
  if (init_containers.is_array()) {
    for (const json& one : init_containers) {
      Units units = ReadUnits(ValueAt(ValueAt(one, "resources"), "requests"));
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

std::vector<UnitRequest> ParseResources(std::string_view list) {
  constexpr std::size_t kNameMax = 63;
  const auto is_alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  std::vector<UnitRequest> named;
  for (std::size_t begin = 0; begin <= list.size() && named.size() < kNamedMax;) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view part = list.substr(begin, end - begin);
    begin = end + 1;
    part.remove_prefix(std::min(part.find_first_not_of(" \t\n\r"), part.size()));
    part = part.substr(0, part.find_last_not_of(" \t\n\r") + 1);
    const bool is_name =
        !part.empty() && part.size() <= kNameMax && is_alphanumeric(part.front()) && is_alphanumeric(part.back()) &&
        std::ranges::all_of(part, [&](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
    if (is_name && std::ranges::find(named, part, &UnitRequest::resource) == named.end())
      named.push_back({.resource = std::string(part), .units = 1});
  }
  return named;
}

}  // namespace berth::reconciler
