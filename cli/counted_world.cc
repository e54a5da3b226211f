// SPDX-License-Identifier: Apache-2.0
// Reads the objects with consistent lists, and counts their addresses with the controller's code.
#include "cli/counted_world.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/read_all.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "k8sclient/clock.h"
#include "k8sclient/server_clock.h"
#include "k8sclient/text_at.h"
#include "reconciler/read_holders.h"
#include "reconciler/read_objects.h"

namespace berth::cli {

namespace {

using nlohmann::json;

AskedPod Ask(const json& object) {
  AskedPod asked;
  if (const auto spec = object.find("spec"); spec != object.end()) asked.placement = reconciler::ReadPlacement(*spec);
  const json::json_pointer where("/status/conditions");
  if (!object.contains(where) || !object.at(where).is_array()) return asked;
  for (const json& condition : object.at(where)) {
    const bool is_refusal = condition.is_object() && k8sclient::TextAt(condition, "type") == "PodScheduled" &&
                            k8sclient::TextAt(condition, "status") == "False";
    if (is_refusal) asked.scheduler_says = k8sclient::TextAt(condition, "message");
  }
  return asked;
}

bool IsAnyForNamespaces(const reconciler::World& world) {
  return std::ranges::any_of(world.pools,
                             [](const auto& item) { return item.second.pool && item.second.pool->namespace_selector; });
}

}  // namespace

Counting::Counting(const CountedWorld& read) : accepted(reconciler::AcceptedPools(read.world)) {
  census.Take(read.world, accepted, read.now_ms);
  pools = reconciler::CountedPools(read.world, accepted);
  held.Update(read.world);
  counts.Update({.world = read.world, .census = census, .pools = pools, .held = held, .leaving = {}});
  for (const auto& [name, seen] : read.world.blocks()) {
    if (seen.block != nullptr) blocks_of_[{seen.block->node, seen.pool_uid}].push_back(seen.block.get());
  }
}

const std::vector<const ipam::Block*>& Counting::BlocksOf(const std::string& node, const std::string& pool_uid) const {
  static const std::vector<const ipam::Block*> kNone;
  const auto found = blocks_of_.find({node, pool_uid});
  return found == blocks_of_.end() ? kNone : found->second;
}

Expected<CountedWorld> ReadCountedWorld(k8sclient::Api& server, const std::string& pod) {
  CountedWorld read;
  k8sclient::ServerClock clock(k8sclient::RealClock());
  k8sclient::DatedApi api(server, clock);
  auto pools = ReadAll<reconciler::SeenPool>(api, crds::kPoolsPath, reconciler::ReadPool, read.unreadable);
  if (!pools) return std::unexpected(std::move(pools.error()));
  auto spaces = ReadAll<crds::Space>(api, crds::kSpacesPath, reconciler::ReadSpace, read.unreadable);
  if (!spaces) return std::unexpected(std::move(spaces.error()));
  auto blocks = ReadAll<reconciler::SeenBlock>(api, crds::kBlocksPath, reconciler::ReadBlock, read.unreadable);
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  auto nodes = ReadAll<reconciler::SeenNode>(api, reconciler::kNodesPath, reconciler::ReadNode, read.unreadable);
  if (!nodes) return std::unexpected(std::move(nodes.error()));
  const auto read_pod = [&](json object) {
    const json empty = json::object();
    const json& metadata = object.contains("metadata") ? object.at("metadata") : empty;
    const bool is_asked = k8sclient::TextAt(metadata, "namespace") + "/" + k8sclient::TextAt(metadata, "name") == pod;
    if (is_asked) read.asked = Ask(object);
    return reconciler::ReadPod(std::move(object));
  };
  auto pods = ReadAll<reconciler::SeenPod>(api, reconciler::kPodsPath, read_pod, read.unreadable);
  if (!pods) return std::unexpected(std::move(pods.error()));

  for (auto& one : *pools) read.world.pools.insert_or_assign(one.meta.name, std::move(one));
  for (auto& one : *spaces) read.world.spaces.insert_or_assign(one.meta.name, std::move(one));
  for (auto& one : *blocks) read.world.PutBlock(std::move(one));
  for (auto& one : *nodes) read.world.nodes.Put(std::move(one));
  for (auto& one : *pods) read.world.pods.Put(std::move(one), {});
  read.world.knows_holders = true;
  if (read.asked && IsAnyForNamespaces(read.world)) {
    const std::string name_space = pod.substr(0, pod.find('/'));
    const auto object = k8sclient::Get(
        api, k8sclient::Path({"api", "v1", "namespaces", name_space}), k8sclient::CallOptions::Within(kAnswerMax));
    if (!object) return std::unexpected(object.error().Within("read namespace " + name_space));
    read.asked->namespace_labels = crds::LabelsOf(*object);
  }
  const auto now = clock.WallNow().time_since_epoch();
  read.now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return read;
}

}  // namespace berth::cli
