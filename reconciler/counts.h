// SPDX-License-Identifier: Apache-2.0
// Counts: for each node and each counted resource, how many addresses the node has for pods that request them
// (docs/scheduling.md).
//
// For a node and a resource:
//   usable     free addresses of those of the node's blocks whose pools count for the node (CountedPools)
//   held       for each active pod of the node that requests the resource: the addresses recorded for it in any block,
//              at most as many as it requests
//   requested  the sum of the requests of the node's active pods
// The Node's address count is usable + held if that is at least `requested`; otherwise the Node shows no count. The
// count is a capacity: kube-scheduler and the kubelet subtract the requests themselves. The code here writes nothing
// and reads no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reconciler/census.h"
#include "reconciler/held_entries.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Blocks that the controller deletes once no Node counts their addresses, by name. The value: since when no Node has
// counted the block's addresses; nothing: a Node still counts them.
using LeavingBlocks = std::map<std::string, std::optional<SteadyTime>>;

struct Tally {
  std::int64_t usable = 0;
  std::int64_t held = 0;
  std::int64_t requested = 0;
  // Addresses that active pods need, but neither request nor have. 0 unless Scope::defaults is set.
  std::int64_t owed = 0;
  bool is_counted = false;  // a pool of the resource counts for this node

  [[nodiscard]] std::int64_t Sum() const { return usable + held; }
  // The address count that the Node should show; nothing: none.
  [[nodiscard]] std::optional<std::int64_t> Number() const {
    const bool is_of_node = is_counted || held > 0;
    return is_of_node && Sum() >= requested ? std::optional(Sum()) : std::nullopt;
  }
  // Addresses that further pods can have.
  [[nodiscard]] std::int64_t Left() const { return Sum() - requested - owed; }
  friend bool operator==(const Tally&, const Tally&) = default;
};
using NodeTally = std::map<std::string, Tally>;  // by resource

// Limit of the number of resources that a waiting pod may need (Counts::waiting).
inline constexpr std::size_t kNeedsMax = 16;

// Finds the pools that count: a Node's address count includes the free addresses of its blocks of these pools. A pool
// counts if it has a resource and affinity Node, its space has accepted it, it is Ready, neither disabled nor being
// deleted, and not in of_mixed_namespaces(). It counts for the nodes that its nodeSelector matches.
class CountedPools {
 public:
  CountedPools() = default;
  // `pools`: the accepted pools (census.h).
  CountedPools(const World& world, const std::map<std::string, CountedPool>& pools);

  // The resource of the pool's addresses, whether the pool counts or not; empty: none.
  [[nodiscard]] const std::string& ResourceOf(const std::string& pool_uid) const;
  // True if the free addresses of the pool's blocks on the node count. Then `resource` of the pool is not empty.
  [[nodiscard]] bool Counts(const std::string& pool_uid, const SeenNode& node) const;
  // UIDs of pools that do not count, because not all pools of their resource have the same namespaceSelector.
  [[nodiscard]] const std::set<std::string>& of_mixed_namespaces() const { return of_mixed_namespaces_; }
  [[nodiscard]] const std::map<std::string, const ipam::Pool*>& counted() const { return counted_; }
  [[nodiscard]] const std::map<std::string, std::string>& resource_of() const { return resource_of_; }

 private:
  std::map<std::string, std::string> resource_of_;    // by UID, of every readable pool
  std::map<std::string, const ipam::Pool*> counted_;  // by UID
  std::set<std::string> of_mixed_namespaces_;
};

// True if the entry's address counts as an address of the pod: the entry has the pod's UID or config hash, or the
// entry's node is the pod's node and the pod's podIPs contain the address. Requires: the entry names the pod or its
// UID.
[[nodiscard]] bool IsOf(const HeldEntries::Entry& entry, const SeenPod& pod);

class Counts {
 public:
  struct Scope {
    const World& world;
    const Census& census;  // counted from the same pools
    const CountedPools& pools;
    const HeldEntries& held;       // must outlive the Counts; Update has to see every change of it
    const LeavingBlocks& leaving;  // free addresses of these blocks are not usable
    // The needs of a pod that requests nothing and has no annotation ipam.berth.dev/resources. nullptr: only requests
    // count. Must be the same in every call of Update.
    const std::vector<UnitRequest>* defaults = nullptr;
  };
  // Requires: world.knows_holders; Update has seen each key of Pods::touched before ForgetTouched drops it.
  void Update(const Scope& scope);

  // By name of the node; contains every Node that exists.
  [[nodiscard]] const std::map<std::string, NodeTally>& all() const { return tallies_; }
  [[nodiscard]] const NodeTally& Of(const std::string& node) const;
  // The node's tally with all pods that a consistent list (`listed`) or the watch has shown on the node. If both have
  // shown a pod, the list's version of the pod counts. Pods that only the watch has shown also count, because the
  // scheduler may have bound them after the list.
  [[nodiscard]] NodeTally WithPods(const World& world, const std::string& node,
                                   const std::vector<SeenPod>& listed) const;
  // Number of active pods. Pods without need of an address are included, because they also count against the node's
  // limit of pods.
  [[nodiscard]] std::size_t ActivePods(const std::string& node) const;
  // The addresses that the pod requests, or needs without a request.
  [[nodiscard]] const std::vector<UnitRequest>& NeedsOf(const SeenPod& pod) const { return pod.Needs(defaults_); }
  // Unschedulable pods that need addresses (NeedsOf) of at most kNeedsMax resources. A pod that needs more resources is
  // left out, because it could make each decision about waiting pods slow.
  [[nodiscard]] const std::set<PodKey>& waiting() const { return waiting_; }

 private:
  void TakeEntries(const Scope& scope);
  void TakePods(const Scope& scope);
  void PlacePod(const PodKey& key, const SeenPod* pod);
  void AddPod(const SeenPod& pod, NodeTally& tally) const;

  const std::vector<UnitRequest>* defaults_ = nullptr;
  const HeldEntries* held_ = nullptr;
  bool is_taken_ = false;                               // whether the first Update has run
  std::map<std::string, std::string> resource_of_;      // resource of each pool in the last Update
  std::set<std::string> resources_;                     // the resources in resource_of_, and those that Nodes show
  std::map<PodKey, std::string> node_of_;               // the node of each active pod
  std::map<std::string, std::size_t> active_;           // number of active pods, by node
  std::map<std::string, std::set<PodKey>> requesting_;  // active pods that need addresses, by node
  std::set<PodKey> waiting_;
  std::set<std::string> changed_;             // nodes whose pods must be counted again
  std::map<std::string, NodeTally> of_pods_;  // held, requested and owed, by node
  std::map<std::string, NodeTally> usable_;   // usable and is_counted, by node
  std::map<std::string, NodeTally> tallies_;
};

}  // namespace berth::reconciler
