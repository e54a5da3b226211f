// SPDX-License-Identifier: Apache-2.0
// Reads consistent lists: they contain everything that was written before the call.
#include "cli/inventory.h"

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/read_all.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "crds/reservation.h"
#include "k8sclient/clock.h"
#include "k8sclient/server_clock.h"

namespace berth::cli {

namespace {

using nlohmann::json;

constexpr const char* kMirrorHash = "kubernetes.io/config.hash";

std::string Text(const json& object, const char* pointer) {
  const json::json_pointer where(pointer);
  if (!object.contains(where) || !object.at(where).is_string()) return {};
  return object.at(where).get<std::string>();
}

Expected<SeenPool> ParseSeenPool(const json& object) {
  auto pool = crds::ParsePool(object);
  if (!pool) return std::unexpected(pool.error());
  auto status = crds::ParsePoolStatus(object);
  if (!status) return std::unexpected(status.error());
  return SeenPool{.pool = *std::move(pool), .status = *std::move(status)};
}

}  // namespace

const SeenPool* Inventory::FindPool(const std::string& uid) const {
  const auto found = std::ranges::find_if(pools, [&](const SeenPool& seen) { return seen.pool.uid == uid; });
  return found == pools.end() ? nullptr : &*found;
}

const Pod* Inventory::FindPod(const std::string& name_space, const std::string& name) const {
  const auto found = pods.find({name_space, name});
  return found == pods.end() ? nullptr : &found->second;
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
  // List blocks before pods. If ReadInventory listed pods first, a block could have an entry of a pod that is newer
  // than the list of pods, and this pod would seem to be gone.
  const auto parse_pool = [&inventory](const json& object) {
    auto seen = ParseSeenPool(object);
    if (!seen) inventory.unreadable_pools.insert(Text(object, "/metadata/uid"));
    return seen;
  };
  auto pools = ReadAll<SeenPool>(api, crds::kPoolsPath, parse_pool, inventory.unreadable);
  if (!pools) return std::unexpected(std::move(pools.error()));
  auto blocks = ReadAll<ipam::Block>(api, crds::kBlocksPath, crds::ParseBlock, inventory.unreadable);
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  auto allocations =
      ReadAll<crds::Allocation>(api, crds::kAllocationsPath, crds::ParseAllocation, inventory.unreadable);
  if (!allocations) return std::unexpected(std::move(allocations.error()));
  inventory.pools = *std::move(pools);
  inventory.blocks = *std::move(blocks);
  inventory.allocations = *std::move(allocations);
  if (with_pods) {
    auto pods = ReadAll<Pod>(api, "/api/v1/pods", ParsePod, inventory.unreadable);
    if (!pods) return std::unexpected(std::move(pods.error()));
    auto nodes = ReadAll<std::string>(api, "/api/v1/nodes", crds::NameOf, inventory.unreadable);
    if (!nodes) return std::unexpected(std::move(nodes.error()));
    const auto read = [](const json& object) { return crds::ParseReservation(object); };
    auto reservations = ReadAll<crds::Reservation>(api, crds::kReservationsPath, read, inventory.unreadable);
    if (!reservations) return std::unexpected(std::move(reservations.error()));
    for (Pod& pod : *pods) {
      PodName name(pod.name_space, pod.name);
      inventory.pods.insert_or_assign(std::move(name), std::move(pod));
    }
    inventory.nodes.insert(nodes->begin(), nodes->end());
  }
  const auto now = clock.WallNow().time_since_epoch();
  inventory.now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return inventory;
}

}  // namespace berth::cli
