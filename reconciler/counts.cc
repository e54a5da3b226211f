// SPDX-License-Identifier: Apache-2.0
// Counts: updates the pods' part of the address counts node by node, and sums up the blocks' part anew each time.
#include "reconciler/counts.h"

#include <algorithm>
#include <utility>

#include "crds/quantity.h"

namespace berth::reconciler {

CountedPools::CountedPools(const World& world, const std::map<std::string, CountedPool>& pools) {
  std::map<std::string, std::vector<const ipam::Pool*>> by_resource;
  for (const auto& [name, seen] : world.pools) {
    if (!seen.pool || seen.pool->resource.empty()) continue;
    resource_of_.emplace(seen.meta.uid, seen.pool->resource);
    const bool is_for_nodes = seen.pool->affinity == ipam::Affinity::kNode && !seen.meta.deleting();
    if (is_for_nodes && pools.contains(seen.meta.uid)) by_resource[seen.pool->resource].push_back(&*seen.pool);
  }
  for (const auto& [resource, members] : by_resource) {
    const bool is_mixed = std::ranges::any_of(
        members, [&](const ipam::Pool* one) { return one->namespace_selector != members.front()->namespace_selector; });
    for (const ipam::Pool* pool : members) {
      if (is_mixed && pool->namespace_selector) {
        of_mixed_namespaces_.insert(pool->uid);
        continue;
      }
      if (pool->disabled || !world.pools.at(pool->name).IsReady()) continue;
      counted_.emplace(pool->uid, pool);
    }
  }
}

const std::string& CountedPools::ResourceOf(const std::string& pool_uid) const {
  static const std::string kNone;
  const auto found = resource_of_.find(pool_uid);
  return found == resource_of_.end() ? kNone : found->second;
}

bool CountedPools::Counts(const std::string& pool_uid, const SeenNode& node) const {
  const auto found = counted_.find(pool_uid);
  if (found == counted_.end()) return false;
  const auto& selector = found->second->node_selector;
  return !selector || selector->Matches(node.labels);
}

bool IsOf(const HeldEntries::Entry& entry, const SeenPod& pod) {
  const std::string& uid = entry.held.uid;
  if (!uid.empty() && (uid == pod.uid || uid == pod.config_hash)) return true;
  const ipam::Address address = entry.block->cidr.At(entry.key.second);
  return entry.node() == pod.node && std::ranges::find(pod.addresses, address) != pod.addresses.end();
}

void Counts::Update(const Scope& scope) {
  std::set<std::string> resources;
  for (const auto& [uid, resource] : scope.pools.resource_of()) resources.insert(resource);
  for (const auto& [name, node] : scope.world.nodes.all()) {
    for (const auto& [resource, number] : node.numbers) resources.insert(resource);
  }
  if (resource_of_ != scope.pools.resource_of() || resources_ != resources) {
    resource_of_ = scope.pools.resource_of();
    resources_ = std::move(resources);
    for (const auto& [node, pods] : requesting_) changed_.insert(node);
  }
  defaults_ = scope.defaults;
  held_ = &scope.held;
  TakePods(scope);
  TakeEntries(scope);
  for (const std::string& node : changed_) {
    of_pods_.erase(node);
    const auto pods = requesting_.find(node);
    if (pods == requesting_.end()) continue;
    NodeTally& tally = of_pods_[node];
    for (const PodKey& key : pods->second) AddPod(*scope.world.pods.Find(key), tally);
  }
  changed_.clear();
  usable_.clear();
  for (const auto& [name, node] : scope.world.nodes.all()) {
    NodeTally& tally = usable_[name];
    for (const auto& [uid, pool] : scope.pools.counted()) {
      if (scope.pools.Counts(uid, node)) tally[pool->resource].is_counted = true;
    }
  }
  for (const auto& [name, seen] : scope.world.blocks()) {
    if (seen.block == nullptr || seen.block->deleting || scope.leaving.contains(name)) continue;
    const SeenNode* node = scope.world.nodes.Find(seen.block->node);
    if (node == nullptr || !scope.pools.Counts(seen.pool_uid, *node)) continue;
    usable_[node->name][scope.pools.ResourceOf(seen.pool_uid)].usable += scope.census.FreeIn(name);
  }
  tallies_ = usable_;
  for (auto& [node, tally] : tallies_) {
    const auto pods = of_pods_.find(node);
    if (pods == of_pods_.end()) continue;
    for (const auto& [resource, part] : pods->second) {
      tally[resource].held = part.held;
      tally[resource].requested = part.requested;
      tally[resource].owed = part.owed;
    }
  }
}

const NodeTally& Counts::Of(const std::string& node) const {
  static const NodeTally kNone;
  const auto found = tallies_.find(node);
  return found == tallies_.end() ? kNone : found->second;
}

NodeTally Counts::WithPods(const World& world, const std::string& node, const std::vector<SeenPod>& listed) const {
  NodeTally tally;
  if (const auto usable = usable_.find(node); usable != usable_.end()) tally = usable->second;
  std::set<std::string> uids;
  for (const SeenPod& pod : listed) {
    uids.insert(pod.uid);
    if (pod.IsActive() && pod.node == node) AddPod(pod, tally);
  }
  const auto watched = requesting_.find(node);
  if (watched == requesting_.end()) return tally;
  for (const PodKey& key : watched->second) {
    const SeenPod& pod = *world.pods.Find(key);
    if (!uids.contains(pod.uid)) AddPod(pod, tally);
  }
  return tally;
}

std::size_t Counts::ActivePods(const std::string& node) const {
  const auto found = active_.find(node);
  return found == active_.end() ? 0 : found->second;
}

void Counts::AddPod(const SeenPod& pod, NodeTally& tally) const {
  std::map<std::string, std::int64_t> addresses;  // recorded for the pod, by resource
  const auto count = [&](const std::string& holder) {
    for (const HeldEntries::Entry& entry : held_->Of(holder)) {
      const auto resource = resource_of_.find(entry.block->pool_uid);
      if (resource != resource_of_.end() && IsOf(entry, pod)) ++addresses[resource->second];
    }
  };
  count(NamespacedName(pod.name_space, pod.name));
  count(pod.uid);
  for (const UnitRequest& need : NeedsOf(pod)) {
    // Skip resources that no pool has and no Node shows: a pod may request any number of them.
    if (!resources_.contains(need.resource)) continue;
    Tally& of_resource = tally[need.resource];
    const std::int64_t has = std::min(need.units, addresses[need.resource]);
    if (pod.requests.empty()) {
      of_resource.owed = crds::SaturatingSum(of_resource.owed, need.units - has);
      continue;
    }
    of_resource.requested = crds::SaturatingSum(of_resource.requested, need.units);
    of_resource.held += has;
  }
}

void Counts::TakeEntries(const Scope& scope) {
  for (const auto* places : {&scope.held.went(), &scope.held.came()}) {
    for (const HeldEntries::Place& place : *places) {
      const HeldEntries::Entry entry = HeldEntries::Read(place);
      changed_.insert(entry.node());
      if (const auto pod = node_of_.find(HolderOf(entry.held)); pod != node_of_.end()) changed_.insert(pod->second);
    }
  }
}

void Counts::TakePods(const Scope& scope) {
  if (!is_taken_) {
    is_taken_ = true;
    for (const auto& [key, pod] : scope.world.pods.all()) PlacePod(key, &pod);
    return;
  }
  for (const PodKey& key : scope.world.pods.touched()) PlacePod(key, scope.world.pods.Find(key));
}

// `pod`: nullptr if the pod is gone.
void Counts::PlacePod(const PodKey& key, const SeenPod* pod) {
  if (const auto before = node_of_.find(key); before != node_of_.end()) {
    const std::string& node = before->second;
    if (--active_[node] == 0) active_.erase(node);
    if (const auto pods = requesting_.find(node); pods != requesting_.end() && pods->second.erase(key) > 0) {
      changed_.insert(node);
      if (pods->second.empty()) requesting_.erase(pods);
    }
    node_of_.erase(before);
  }
  const bool waits = pod != nullptr && pod->placement != nullptr && !pod->is_terminal && !NeedsOf(*pod).empty() &&
                     NeedsOf(*pod).size() <= kNeedsMax;
  if (waits) {
    waiting_.insert(key);
  } else {
    waiting_.erase(key);
  }
  if (pod == nullptr || !pod->IsActive()) return;
  node_of_.emplace(key, pod->node);
  ++active_[pod->node];
  if (NeedsOf(*pod).empty()) return;
  requesting_[pod->node].insert(key);
  changed_.insert(pod->node);
}

}  // namespace berth::reconciler
