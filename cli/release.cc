// SPDX-License-Identifier: Apache-2.0
// Checks whether an address may be released, and writes the block by compare-and-swap.
#include "cli/release.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/verbs.h"

namespace berth::cli {

namespace {

using nlohmann::json;

constexpr int kTriesMax = 10;
constexpr std::int64_t kCoolingMs = 60'000;  // within this time the node's agent sees the cooling entry
constexpr std::chrono::seconds kCallMax{20};
constexpr std::chrono::seconds kInventoryMax{20};

k8sclient::CallOptions Soon() { return k8sclient::CallOptions::Within(kCallMax); }

bool IsReady(const json& node) {
  for (const json& condition : node.value("status", json::object()).value("conditions", json::array())) {
    if (condition.value("type", "") == "Ready") return condition.value("status", "") == "True";
  }
  return false;
}

// The held entry; or, if the address is freed but an agent has yet to check whether a container still has it, the freed
// entry inside the cooling entry.
std::optional<ipam::HeldEntry> HeldOrUnchecked(const Use& use) {
  if (const ipam::HeldEntry* held = use.held()) return *held;
  auto freed = ipam::FreedUnder(use.block->allocations.at(use.offset));
  return freed ? std::optional(std::move(freed->entry)) : std::nullopt;
}

Expected<PodAndNode> ReadPodAndNode(k8sclient::Api& api, const Use& use) {
  PodAndNode live;
  // Without a node, Released refuses in any case: the block is Shared, and the address is not held, or its entry names
  // no node.
  if (use.node().empty()) return live;
  const std::optional<ipam::HeldEntry> held = HeldOrUnchecked(use);
  if (held && !held->pod.empty() && !held->pod_namespace.empty()) {
    const auto pod = k8sclient::Get(
        api, k8sclient::Path({"api", "v1", "namespaces", held->pod_namespace, "pods", held->pod}), Soon());
    if (pod) live.pod = ParsePod(*pod);
    if (!pod && pod.error().code != ErrorCode::kNotFound) return std::unexpected(pod.error());
  }
  const auto node = k8sclient::Get(api, k8sclient::Path({"api", "v1", "nodes", use.node()}), Soon());
  if (!node && node.error().code != ErrorCode::kNotFound) return std::unexpected(node.error());
  live.node_is_gone = !node;
  live.node_is_ready_or_gone = !node || IsReady(*node);
  return live;
}

std::string Describe(const Use& use) { return use.address().ToString() + " of block " + use.block->name; }

std::string Success(const Use& use, const ipam::Block& after) {
  std::string text = Describe(use) + " released, was " + use.block->allocations.at(use.offset);
  if (ipam::FreedUnder(after.allocations.at(use.offset))) {
    text += "\nIf a container still has the address, the agent of node " + use.node() +
            " writes the entry again. Then end the container. If no container has the address, release it with --sure";
  }
  return text;
}

// Fails if the pod of the entry may still run.
Expected<void> CheckPodIsGone(const Use& use, const ipam::HeldEntry& held, const PodAndNode& live, bool is_sure) {
  const std::string name = held.pod_namespace + "/" + held.pod;
  // A pod whose sandbox was replaced has another address than the freed entry of the earlier sandbox.
  const bool has_other = use.held() == nullptr && live.pod && !live.pod->addresses.empty() &&
                         std::ranges::find(live.pod->addresses, use.address()) == live.pod->addresses.end();
  if (live.pod && IsOf(held, *live.pod) && !live.pod->ended() && !has_other) {
    return Fail(ErrorCode::kInvalid,
                Describe(use) + " is in use by pod " + name,
                "delete the pod: kubectl delete pod -n " + held.pod_namespace + " " + held.pod);
  }
  // If the runtime passes UIDs that are not those of the pods, only the pod's status shows that the pod has the
  // address.
  if (live.pod && !live.pod->ended() && !live.pod->host_network &&
      std::ranges::find(live.pod->addresses, use.address()) != live.pod->addresses.end()) {
    return Fail(
        ErrorCode::kInvalid, Describe(use) + " is in the status of the running pod " + name, "delete that pod first");
  }
  const bool is_unknown = held.pod.empty() || held.pod_namespace.empty() || held.uid.empty();
  const bool is_static = !is_unknown && !held.uid.contains('-');
  if ((is_unknown || is_static) && !live.node_is_gone && !is_sure) {
    return Fail(ErrorCode::kInvalid,
                Describe(use) + " is held by " + (is_static ? "a static" : "an unknown") +
                    " pod: berthctl cannot check whether that pod runs",
                "make sure on node " + use.node() + " that no container has the address, then add --sure");
  }
  return {};
}

}  // namespace

Expected<Use> FindUse(const Inventory& inventory, ipam::Address address, const std::string& space) {
  for (const ipam::Block& block : inventory.blocks) {
    if (block.space != space || !block.cidr.Contains(address)) continue;
    const auto found = block.allocations.find(static_cast<ipam::BlockOffset>(block.cidr.OffsetOf(address)));
    if (found == block.allocations.end()) continue;
    return Use{.block = &block, .offset = found->first, .entry = ipam::ParseEntry(found->second)};
  }
  return Fail(ErrorCode::kNotFound,
              "no entry has the address " + address.ToString() + " in space " + space,
              "see all: berthctl show addresses");
}

Expected<ipam::Block> Released(const Use& use, const PodAndNode& live, bool is_sure, std::int64_t now_ms) {
  const std::optional<ipam::HeldEntry> held = HeldOrUnchecked(use);
  if (!held) {
    const bool is_opaque = std::holds_alternative<ipam::OpaqueEntry>(use.entry);
    return Fail(
        ErrorCode::kInvalid,
        Describe(use) + (is_opaque ? " has an entry that this version does not understand"
                                   : " is held by no pod: it is cooling or reserved"),
        is_opaque
            ? "use a newer berthctl"
            : "a cooling address becomes free by itself; for a reserved address, delete or change the IPReservation");
  }
  const bool is_freed = use.held() == nullptr;
  if (is_freed && !is_sure) {
    return Fail(ErrorCode::kInvalid,
                Describe(use) + " is freed, but no agent has looked yet whether a container still has the address",
                "wait for the agent of node " + use.node() +
                    "; if that node has no agent, make sure that no container has the address, then add --sure");
  }
  if (auto gone = CheckPodIsGone(use, *held, live, is_sure); !gone) return std::unexpected(gone.error());
  if (!live.node_is_ready_or_gone) {
    return Fail(ErrorCode::kInvalid,
                Describe(use) + " is on node " + use.node() + ", which is not Ready: its containers may still run",
                "wait until the node is Ready, or delete the Node once it is off for good");
  }
  ipam::Block block = *use.block;
  std::string& text = block.allocations.at(use.offset);
  if (is_freed) {
    auto mark = std::get<ipam::CoolingEntry>(use.entry);
    mark.freed.clear();
    text = ipam::FormatEntry(mark).value();
    return block;
  }
  const bool agent_looks = !live.node_is_gone && !block.shared() && !is_sure;
  text = ipam::FreedMark(*held, text, agent_looks, now_ms + kCoolingMs);
  return block;
}

Expected<std::int64_t> Releaser::Refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (read_ && now < *read_ + kInventoryMax) {
    return inventory_.now_ms + std::chrono::duration_cast<std::chrono::milliseconds>(now - *read_).count();
  }
  auto inventory = ReadInventory(api_, /*with_pods=*/true);
  if (!inventory) return std::unexpected(inventory.error());
  inventory_ = *std::move(inventory);
  read_ = std::chrono::steady_clock::now();
  return inventory_.now_ms;
}

Expected<std::string> Releaser::Perform(const Release& release) {
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const auto now_ms = Refresh();
    if (!now_ms) return std::unexpected(now_ms.error());
    const auto use = FindUse(inventory_, release.address, release.space);
    if (!use) return std::unexpected(use.error());
    for (const auto& [name, pod] : inventory_.pods) {
      const bool has_it = std::ranges::find(pod.addresses, release.address) != pod.addresses.end();
      if (!has_it || pod.host_network || pod.ended() || (!use->node().empty() && pod.node != use->node())) continue;
      return Fail(ErrorCode::kInvalid,
                  Describe(*use) + " is in the status of the running pod " + pod.name_space + "/" + pod.name,
                  "delete that pod first");
    }
    const auto live = ReadPodAndNode(api_, *use);
    if (!live) return std::unexpected(live.error());
    const auto after = Released(*use, *live, release.is_sure, *now_ms);
    if (!after) return std::unexpected(after.error());
    const std::string path = k8sclient::ObjectPath(crds::kBlocksPath, use->block->name);
    const auto written = k8sclient::MergePatch(api_, path, crds::BlockMergePatch(*use->block, *after), Soon());
    const bool is_conflict = !written && written.error().code == ErrorCode::kConflict;
    if (!written && !is_conflict) return std::unexpected(written.error());
    std::string text = Success(*use, *after);
    const auto object = is_conflict ? k8sclient::Get(api_, path, Soon()) : written;
    auto block = object ? crds::ParseBlock(*object) : std::unexpected(object.error());
    const bool is_same =
        !is_conflict || (block && block->allocations[use->offset] == use->block->allocations.at(use->offset));
    if (block && is_same) {
      // Other findings of the report may be in the same block.
      ipam::Block& known = *std::ranges::find(inventory_.blocks, use->block->name, &ipam::Block::name);
      known = *std::move(block);
    } else {
      // Make Refresh read everything again: a changed entry may name a pod that is newer than the list of pods.
      read_.reset();
    }
    if (!is_conflict) return text;
  }
  return Fail(ErrorCode::kConflict,
              "other programs changed the block of " + release.address.ToString() + " during every try",
              "try again");
}

}  // namespace berth::cli
