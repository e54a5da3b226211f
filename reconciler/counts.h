// SPDX-License-Identifier: Apache-2.0
// Counts: how many addresses of each counted resource every node has for pods that request them
// (docs/scheduling.md).
//
// For a node and a resource:
//   usable     free addresses of the node's blocks, of pools that count for the node
//   held       for each active pod of the node that requests the resource: the addresses recorded for it in any block,
//              at most as many as the units it requests
//   requested  the units that the node's active pods request
// The number to be shown is usable + held, if that is at least `requested`; otherwise none. It is a capacity:
// kube-scheduler and the kubelet subtract the requests themselves. No write and no clock here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "reconciler/census.h"
#include "reconciler/held_entries.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Blocks that are to be deleted once no Node counts their addresses; by name: since when none has.
using LeavingBlocks = std::map<std::string, std::optional<SteadyTime>>;

struct Tally {
  std::int64_t usable = 0;
  std::int64_t held = 0;
  std::int64_t requested = 0;
  // Addresses that active pods need, do not request and have not got. 0 unless they are counted (Scope::defaults).
  std::int64_t owed = 0;
  bool is_counted = false;  // a pool of the resource counts for this node

  [[nodiscard]] std::int64_t Sum() const { return usable + held; }
  // What the Node should show; nothing: no number.
  [[nodiscard]] std::optional<std::int64_t> Number() const {
    const bool is_of_node = is_counted || held > 0;
    return is_of_node && Sum() >= requested ? std::optional(Sum()) : std::nullopt;
  }
  // Addresses that further pods could have.
  [[nodiscard]] std::int64_t Left() const { return Sum() - requested - owed; }
  friend bool operator==(const Tally&, const Tally&) = default;
};
using NodeTally = std::map<std::string, Tally>;  // by resource

// Pools by UID, and what each of them counts for.
class CountedPools {
 public:
  CountedPools() = default;
  // `pools`: those that are accepted (census.h).
  CountedPools(const World& world, const std::map<std::string, CountedPool>& pools);

  // The resource of the addresses of that pool, whether the pool counts or not; empty: none.
  [[nodiscard]] const std::string& ResourceOf(const std::string& pool_uid) const;
  // Whether the free addresses in that pool's blocks on such a node count; `resource` is then not empty.
  [[nodiscard]] bool Counts(const std::string& pool_uid, const SeenNode& node) const;
  // UIDs of the pools whose namespaceSelector is not that of all pools of their resource: they do not count.
  [[nodiscard]] const std::set<std::string>& of_mixed_namespaces() const { return of_mixed_namespaces_; }
  // All resources that some pool counts for.
  [[nodiscard]] const std::set<std::string>& resources() const { return resources_; }
  [[nodiscard]] const std::map<std::string, const ipam::Pool*>& counted() const { return counted_; }
  [[nodiscard]] const std::map<std::string, std::string>& resource_of() const { return resource_of_; }

 private:
  std::map<std::string, std::string> resource_of_;    // by UID, of every readable pool
  std::map<std::string, const ipam::Pool*> counted_;  // by UID
  std::set<std::string> of_mixed_namespaces_;
  std::set<std::string> resources_;
};

// A held entry as far as it tells whose the address is.
struct RecordedHolder {
  std::string uid;
  std::string node;
  ipam::Address address;

  // Whether the address counts as that pod's: by UID or config hash, else by node and podIPs. Requires: the entry names
  // the pod or its UID.
  [[nodiscard]] bool Is(const SeenPod& pod) const;
};

class Counts {
 public:
  struct Scope {
    const World& world;
    const Census& census;  // of the same pools
    const CountedPools& pools;
    const HeldEntries& held;       // every change of it is seen here
    const LeavingBlocks& leaving;  // these are not usable
    // What a pod needs that says nothing of it. nullptr: only requests are counted. Never changes.
    const std::vector<UnitRequest>* defaults = nullptr;
  };
  // Requires: world.knows_holders; since the last call no pod was forgotten as touched that was not seen here.
  void Update(const Scope& scope);

  // By name of the node; every Node that exists is there.
  [[nodiscard]] const std::map<std::string, NodeTally>& all() const { return tallies_; }
  [[nodiscard]] const NodeTally& Of(const std::string& node) const;
  // The node's tally with all pods that a consistent list or the watch has shown on it. A pod that both have shown is
  // counted as the list has it: the scheduler may have bound others since the list.
  [[nodiscard]] NodeTally WithPods(const World& world, const std::string& node,
                                   const std::vector<SeenPod>& listed) const;
  // Active pods of any kind: each takes one of the node's places.
  [[nodiscard]] std::size_t ActivePods(const std::string& node) const;
  // What is counted for that pod: what it requests, or needs without requesting it.
  [[nodiscard]] const std::vector<UnitRequest>& NeedsOf(const SeenPod& pod) const { return pod.Needs(defaults_); }
  // Pods that are unschedulable and need addresses, as NeedsOf says.
  [[nodiscard]] const std::set<PodKey>& waiting() const { return waiting_; }

 private:
  // Of an address that is recorded.
  struct Recorded {
    EntryKey key;
    std::string pool_uid;
    RecordedHolder holder;
  };

  void TakeEntries(const Scope& scope);
  void TakePods(const Scope& scope);
  void PlacePod(const PodKey& key, const SeenPod* pod);
  void AddPod(const SeenPod& pod, NodeTally& tally) const;

  const std::vector<UnitRequest>* defaults_ = nullptr;
  bool is_taken_ = false;                                    // the first Update was
  std::map<std::string, std::string> resource_of_;           // of pools, as of the last Update
  std::unordered_multimap<std::string, Recorded> recorded_;  // by PodKey, or by UID where no pod is named
  std::map<PodKey, std::string> node_of_;                    // where each active pod was counted
  std::map<std::string, std::size_t> active_;                // how many pods, by node
  std::map<std::string, std::set<PodKey>> requesting_;       // active ones that need something, by node
  std::set<PodKey> waiting_;
  std::set<std::string> changed_;             // nodes of which the pods' part is to be counted again
  std::map<std::string, NodeTally> of_pods_;  // held and requested, by node
  std::map<std::string, NodeTally> usable_;   // usable and is_counted, by node
  std::map<std::string, NodeTally> tallies_;
};

}  // namespace berth::reconciler
