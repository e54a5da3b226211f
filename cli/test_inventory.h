// SPDX-License-Identifier: Apache-2.0
// For tests only: a small healthy cluster. Pool web has 10.55.0.0/24, and node n1 has one block with two pods, a
// cooling address, a reserved address and an address on standby.
#pragma once

#include <string>
#include <utility>

#include "cli/inventory.h"

namespace berth::cli {

inline constexpr const char* kWebUid = "6f7d0c9e-0000-4000-8000-000000000001";
inline constexpr const char* kDbUid = "6f7d0c9e-0000-4000-8000-000000000002";
inline constexpr const char* kBlueUid = "6f7d0c9e-0000-4000-8000-000000000003";

inline std::string HeldText(const std::string& pod, const std::string& uid, char id) {
  return pod + " " + uid + " 0123456789ab-" + std::string(16, id) + " i=eth0 t=1763700000000";
}

inline Pod RunningPod(const char* name, const char* uid, const char* address) {
  Pod pod{.name_space = "team-a", .name = name, .uid = uid, .node = "n1", .phase = "Running"};
  pod.addresses = {ipam::Address::Parse(address).value()};
  return pod;
}

inline void AddPod(Inventory& inventory, Pod pod) {
  const PodName name(pod.name_space, pod.name);
  inventory.pods.emplace(name, std::move(pod));
}

// A pod of the namespace team-a.
inline Pod& PodOf(Inventory& inventory, const char* name) { return inventory.pods.at({"team-a", name}); }
inline void RemovePod(Inventory& inventory, const char* name) { inventory.pods.erase({"team-a", name}); }

inline Inventory HealthyInventory() {
  Inventory inventory;
  inventory.now_ms = 1763700100000;
  SeenPool seen;
  seen.pool.name = "web";
  seen.pool.uid = "pool-uid";
  seen.pool.subnet = ipam::Prefix::Parse("10.55.0.0/24").value();
  seen.pool.ready = true;
  seen.status.total = 254;
  seen.status.used = 2;
  seen.status.free = 251;
  seen.status.blocks = 1;
  ipam::Block block = ipam::NewBlock(seen.pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  block.uid = "block-uid";
  block.resource_version = "7";
  block.allocations = {{1, HeldText("team-a/web-0", kWebUid, 'a')},
                       {2, HeldText("team-a/db-0", kDbUid, 'b')},
                       {3, "~ t=1763700160000"},
                       {4, "! printer"}};
  block.standby = {5};
  inventory.pools = {seen};
  inventory.blocks = {block};
  AddPod(inventory, RunningPod("web-0", kWebUid, "10.55.0.1"));
  AddPod(inventory, RunningPod("db-0", kDbUid, "10.55.0.2"));
  inventory.nodes = {"n1"};
  return inventory;
}

// Adds a block of another space, in which a pod has the same address as a pod of the first space.
inline void AddOtherSpace(Inventory& inventory) {
  ipam::Block block = inventory.blocks[0];
  block.space = "blue";
  block.name = "blue-" + block.name;
  block.allocations = {{1, HeldText("team-a/blue-0", kBlueUid, 'c')}};
  inventory.blocks.push_back(std::move(block));
  AddPod(inventory, RunningPod("blue-0", kBlueUid, "10.55.0.1"));
  inventory.pools[0].status.blocks = 2;
  inventory.pools[0].status.used = 3;
}

}  // namespace berth::cli
