// SPDX-License-Identifier: Apache-2.0
// Plants: defects about the pools that networks name, about pods with addresses of both families, and about spaces.
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "sim/lies.h"
#include "sim/plants.h"
#include "sim/pools.h"

namespace berth::sim {

namespace {

using k8sclient::Request;
using nlohmann::json;

// Removes s=1 from all entries: s=1 says that a Shared block may have an address of the same attachment.
void HidesSibling(Request& request) {
  constexpr std::string_view kMark = " s=1";
  for (std::size_t at = request.body.find(kMark); at != std::string::npos; at = request.body.find(kMark, at)) {
    request.body.erase(at, kMark.size());
  }
}

// Removes the names of IPv6 pools from the configuration of each ADD.
void HidesIpv6Pools(json& call) {
  if (call["command"] != "ADD") return;
  json ipv4 = json::array();
  for (const json& pool : call["config"]["ipam"]["pools"]) {
    if (pool != kIpv6Pool && pool != kSharedIpv6Pool) ipv4.push_back(pool);
  }
  call["config"]["ipam"]["pools"] = ipv4;
}

// If a controller frees an entry in a block of the second space, it writes to the block of the space `default` that has
// the same addresses.
void FreesInDefault(Request& request) {
  const std::string prefix = std::string(crds::kBlocksPath) + "/";
  const std::string space = kSecondSpace + std::string(".");
  if (!request.path.starts_with(prefix + space) || !request.body.contains(" f=")) return;
  request.path.erase(prefix.size(), space.size());
  json patch = json::parse(request.body);
  patch.erase("metadata");
  request.body = patch.dump();
}

void HidesRequests(json& call) {
  for (const char* const key : {"runtimeConfig", "args"}) call["config"].erase(key);
  std::string args = call["args"];
  const std::size_t begin = args.find("IP=");
  if (begin == std::string::npos || (begin > 0 && args[begin - 1] != ';')) return;
  call["args"] = args.erase(begin);
}

}  // namespace

std::vector<Plant> PlantsOfNetworks() {
  return {
      {.name = "block-limit-not-seen",
       .what = "nodes do not see maxBlocksPerNode of pools",
       .faults = {"block-limit"},
       .lies = ToNodes(Replacing("\"maxBlocksPerNode\"", "\"none\""))},
      {.name = "refusal-of-all-blocks",
       .what = "while the API server refuses writes of one block, no program can write any other block",
       .faults = {"refused-block"},
       .lies = {.refuses_all = true}},
      {.name = "requests-not-seen",
       .what = "an agent does not see which addresses a pod requests",
       .faults = {"requests"},
       .call = HidesRequests},
      {.name = "node-selectors-not-seen",
       .what = "nodes do not see which nodes a pool admits",
       .faults = {"selectors"},
       .lies = ToNodes(Replacing("\"nodeSelector\"", "\"none\""))},
      {.name = "namespace-selectors-not-seen",
       .what = "nodes do not see which namespaces a pool admits",
       .faults = {"selectors"},
       .lies = ToNodes(Replacing("\"namespaceSelector\"", "\"none\""))},
      {.name = "ipv6-pools-ignored",
       .what = "an agent ignores the IPv6 pools of a network",
       .faults = {"dual-stack"},
       .call = HidesIpv6Pools},
      {.name = "shared-sibling-not-recorded",
       .what = "an entry does not say that a Shared block has the pod's address of the other family",
       .faults = {"dual-stack", "shared", "kill", "meanwhile"},
       .lies = {.rewrites = HidesSibling}},
      {.name = "spaces-not-seen-by-controllers",
       .what = "controllers do not see which space a pool, a block or a reservation is in",
       .faults = {"spaces", "pools"},
       .lies = ToControllers(Replacing("\"space\"", "\"none\""))},
      {.name = "freed-in-another-space",
       .what = "controllers free entries of one space in the blocks of another",
       .faults = {"spaces", "no-del"},
       .lies = {.rewrites = FreesInDefault}},
  };
}

}  // namespace berth::sim
