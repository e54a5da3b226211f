// SPDX-License-Identifier: Apache-2.0
// Reads consistent lists: they contain everything that was written before the call.
#include "cli/inventory.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "k8sclient/clock.h"
#include "k8sclient/server_clock.h"
#include "k8sclient/verbs.h"

namespace berth::cli {

namespace {

using nlohmann::json;

constexpr std::chrono::seconds kListMax{60};
constexpr const char* kMirrorHash = "kubernetes.io/config.hash";

// Calls `add` with each object of the collection. If `add` fails, its error goes to inventory.unreadable.
Expected<void> ForEach(k8sclient::Api& api, Inventory& inventory, std::string_view path,
                       const std::function<Expected<void>(json)>& add) {
  auto list = k8sclient::List(api, std::string(path), {}, k8sclient::CallOptions::Within(kListMax));
  if (!list) return std::unexpected(list.error().Within("list " + std::string(path)));
  for (json& object : list->items) {
    if (auto added = add(std::move(object)); !added) inventory.unreadable.push_back(added.error());
  }
  return {};
}

std::string Text(const json& object, const char* pointer) {
  const json::json_pointer where(pointer);
  if (!object.contains(where) || !object.at(where).is_string()) return {};
  return object.at(where).get<std::string>();
}

Expected<void> AddPool(Inventory& inventory, const json& object) {
  auto pool = crds::ParsePool(object);
  if (!pool) return std::unexpected(pool.error());
  auto status = crds::ParsePoolStatus(object);
  if (!status) return std::unexpected(status.error());
  inventory.pools.push_back({.pool = *std::move(pool), .status = *std::move(status)});
  return {};
}

}  // namespace

const SeenPool* Inventory::FindPool(const std::string& uid) const {
  const auto found = std::ranges::find_if(pools, [&](const SeenPool& seen) { return seen.pool.uid == uid; });
  return found == pools.end() ? nullptr : &*found;
}

const Pod* Inventory::FindPod(const std::string& name_space, const std::string& name) const {
  const auto found =
      std::ranges::find_if(pods, [&](const Pod& pod) { return pod.name_space == name_space && pod.name == name; });
  return found == pods.end() ? nullptr : &*found;
}

const std::string& Use::node() const { return block->shared() && held() != nullptr ? held()->node : block->node; }

std::vector<Use> UsesOf(const Inventory& inventory) {
  std::vector<Use> uses;
  for (const ipam::Block& block : inventory.blocks) {
    for (const auto& [offset, text] : block.allocations) {
      uses.push_back({.block = &block, .offset = offset, .entry = ipam::ParseEntry(text)});
    }
  }
  return uses;
}

bool IsOf(const ipam::HeldEntry& entry, const Pod& pod) {
  if (entry.pod_namespace != pod.name_space || entry.pod != pod.name) return false;
  return entry.uid.empty() || entry.uid == pod.uid || entry.uid == pod.config_hash;
}

Pod ParsePod(const json& object) {
  Pod pod{.name_space = Text(object, "/metadata/namespace"),
          .name = Text(object, "/metadata/name"),
          .uid = Text(object, "/metadata/uid"),
          .node = Text(object, "/spec/nodeName"),
          .phase = Text(object, "/status/phase")};
  const json empty = json::object();
  pod.config_hash = object.value("metadata", empty).value("annotations", empty).value(kMirrorHash, "");
  pod.host_network = object.value("spec", empty).value("hostNetwork", false);
  for (const json& ip : object.value("status", empty).value("podIPs", json::array())) {
    if (const auto address = ipam::Address::Parse(Text(ip, "/ip"))) pod.addresses.push_back(*address);
  }
  return pod;
}

Expected<Inventory> ReadInventory(k8sclient::Api& server, bool with_pods) {
  Inventory inventory;
  k8sclient::ServerClock clock(k8sclient::RealClock());
  k8sclient::DatedApi api(server, clock);
  const auto add_pool = [&](const json& object) { return AddPool(inventory, object); };
  const auto add_block = [&](const json& object) -> Expected<void> {
    auto block = crds::ParseBlock(object);
    if (!block) return std::unexpected(block.error());
    inventory.blocks.push_back(*std::move(block));
    return {};
  };
  const auto add_allocation = [&](json object) -> Expected<void> {
    auto allocation = crds::ParseAllocation(std::move(object));
    if (!allocation) return std::unexpected(allocation.error());
    inventory.allocations.push_back(*std::move(allocation));
    return {};
  };
  const auto add_pod = [&](const json& object) -> Expected<void> {
    inventory.pods.push_back(ParsePod(object));
    return {};
  };
  const auto add_node = [&](const json& object) -> Expected<void> {
    inventory.nodes.insert(crds::NameOf(object));
    return {};
  };
  // List blocks before pods. If ReadInventory listed pods first, a block could have an entry of a pod that is newer
  // than the list of pods, and this pod would seem to be gone.
  if (auto read = ForEach(api, inventory, crds::kPoolsPath, add_pool); !read) return std::unexpected(read.error());
  if (auto read = ForEach(api, inventory, crds::kBlocksPath, add_block); !read) return std::unexpected(read.error());
  if (auto read = ForEach(api, inventory, crds::kAllocationsPath, add_allocation); !read) {
    return std::unexpected(read.error());
  }
  if (with_pods) {
    if (auto read = ForEach(api, inventory, "/api/v1/pods", add_pod); !read) return std::unexpected(read.error());
    if (auto read = ForEach(api, inventory, "/api/v1/nodes", add_node); !read) return std::unexpected(read.error());
  }
  const auto now = clock.WallNow().time_since_epoch();
  inventory.now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return inventory;
}

}  // namespace berth::cli
