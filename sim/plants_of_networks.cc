// SPDX-License-Identifier: Apache-2.0
// Plants: defects about the pools that networks name, and about pods with addresses of both families.
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/plants.h"
#include "sim/pools.h"

namespace berth::sim {

namespace {

using k8sclient::Request;
using nlohmann::json;

// The entry in a node's block does not say that a Shared block may have an address of the same attachment.
void HidesSibling(Request& request) {
  constexpr std::string_view kMark = " s=1";
  for (std::size_t at = request.body.find(kMark); at != std::string::npos; at = request.body.find(kMark, at)) {
    request.body.erase(at, kMark.size());
  }
}

// The agent reads the names of IPv4 pools only.
void HidesIpv6Pools(json& call) {
  if (call["command"] != "ADD") return;
  json ipv4 = json::array();
  for (const json& pool : call["config"]["ipam"]["pools"]) {
    if (pool != kIpv6Pool && pool != kSharedIpv6Pool) ipv4.push_back(pool);
  }
  call["config"]["ipam"]["pools"] = ipv4;
}

}  // namespace

std::vector<Plant> PlantsOfNetworks() {
  return {
      {.name = "ipv6-pools-ignored",
       .what = "an agent ignores the IPv6 pools of a network",
       .faults = {"dual-stack"},
       .call = HidesIpv6Pools},
      {.name = "shared-sibling-not-recorded",
       .what = "an entry does not say that a Shared block has the pod's address of the other family",
       .faults = {"dual-stack", "shared", "kill", "meanwhile"},
       .lies = {.rewrites = HidesSibling}},
  };
}

}  // namespace berth::sim
