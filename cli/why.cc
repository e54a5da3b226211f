// SPDX-License-Identifier: Apache-2.0
// Asks the controller's counting about one pod.
#include "cli/why.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/numbers.h"
#include "crds/quantity.h"
#include "ipam/pool_choice.h"
#include "reconciler/decide_demand.h"

namespace berth::cli {

namespace {

using Json = nlohmann::ordered_json;
using reconciler::BlockObstacle;
using reconciler::SeenNode;
using reconciler::SeenPod;
using reconciler::SeenPool;
using reconciler::UnitRequest;

constexpr const char* kReadOn = "docs/scheduling.md tells how pods request addresses";
constexpr std::size_t kNodesPrinted = 20;

// A Distance says why a node cannot run the pod now. The smaller the value, the less the node lacks.
enum class Distance : std::uint8_t { kNone, kSoon, kBlockOfOthers, kLimit, kNotCounted, kNotForPod };

struct Verdict {
  Distance distance = Distance::kNone;
  std::string says;
  std::string remedy = {};
};

std::string Count(std::int64_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

// For example "1 ipv4 and 1 ipv6".
std::string Requests(const SeenPod& pod) {
  std::string text;
  for (const UnitRequest& request : pod.requests) {
    text += (text.empty() ? "" : " and ") + std::to_string(request.units) + " " + request.resource;
  }
  return text;
}

// For a pod that requests nothing: returns one unit of each resource that the scheduler's message names. The message
// names the resources for which the scheduler extender found no node with a free address (docs/scheduling.md).
std::vector<UnitRequest> MissedByExtender(const SeenPod& pod, const std::string& scheduler_says) {
  if (!pod.requests.empty() || pod.is_host_network) return {};
  const std::string prefix(crds::kResourcePrefix);
  constexpr const char* kOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  std::vector<UnitRequest> missed;
  for (std::size_t at = scheduler_says.find(prefix); at != std::string::npos; at = scheduler_says.find(prefix, at)) {
    at += prefix.size();
    const std::string name = scheduler_says.substr(at, scheduler_says.find_first_not_of(kOfNames, at) - at);
    const bool is_new = std::ranges::none_of(missed, [&](const UnitRequest& one) { return one.resource == name; });
    if (is_new && !name.empty()) missed.push_back({.resource = name, .units = 1});
  }
  return missed;
}

class Answer {
 public:
  Answer(const CountedWorld& read, const Counting& counting, const std::string& key, SeenPod pod)
      : read_(read), counting_(counting), key_(key), pod_(std::move(pod)), asked_(read.asked.value_or(AskedPod())) {
    auto missed = MissedByExtender(pod_, asked_.scheduler_says);
    is_of_extender_ = !missed.empty();
    if (is_of_extender_) pod_.requests = std::move(missed);
  }

  Json Rows() && {
    const std::vector<reconciler::HeldEntries::Entry> entries = Entries();
    if (pod_.is_terminal) {
      Add("pod", key_, true, "pod " + key_ + " has ended: it needs no address");
    } else if (pod_.is_host_network && pod_.requests.empty()) {
      Add("pod", key_, true, "pod " + key_ + " has the network of its node: it needs no address of a pool");
    } else if (pod_.node.empty()) {
      TellOfUnbound();
    } else if (entries.empty() && pod_.addresses.empty()) {
      TellOfBound();
    } else {
      TellOfRunning(entries);
    }
    return std::move(rows_);
  }

 private:
  void Add(const char* about, const std::string& name, bool fits, std::string says, std::string remedy = {}) {
    rows_.push_back(
        {{"about", about}, {"name", name}, {"fits", fits}, {"says", std::move(says)}, {"remedy", std::move(remedy)}});
  }

  [[nodiscard]] std::vector<reconciler::HeldEntries::Entry> Entries() const {
    std::vector<reconciler::HeldEntries::Entry> entries;
    for (const std::string& holder : {key_, pod_.uid}) {
      for (reconciler::HeldEntries::Entry& entry : counting_.held.Of(holder)) {
        if (reconciler::IsOf(entry, pod_)) entries.push_back(std::move(entry));
      }
    }
    return entries;
  }

  [[nodiscard]] std::string NotCounted() const {
    return pod_.requests.empty()
               ? "; it requests no address, so the scheduler does not check which nodes have an address left"
               : "";
  }

  void TellOfRunning(const std::vector<reconciler::HeldEntries::Entry>& entries) {
    std::vector<ipam::Address> unrecorded = pod_.addresses;
    for (const auto& entry : entries) std::erase(unrecorded, entry.block->cidr.At(entry.key.second));
    const std::size_t count = entries.size() + unrecorded.size();
    Add("pod",
        key_,
        true,
        "pod " + key_ + " is on node " + pod_.node + " and has " + std::to_string(count) +
            (count == 1 ? " address" : " addresses") + NotCounted(),
        pod_.requests.empty() ? kReadOn : "");
    for (const auto& entry : entries) {
      const std::string address = entry.block->cidr.At(entry.key.second).ToString();
      Add("address",
          address,
          true,
          address + " is of pool " + entry.block->pool + ", from block " + entry.block->name + " of " +
              (entry.block->shared() ? "all nodes" : "node " + entry.block->node));
    }
    for (const ipam::Address address : unrecorded) {
      Add("address",
          address.ToString(),
          false,
          "no block records the pod's address " + address.ToString(),
          "if the address is in a pool, find out more: berthctl check");
    }
  }

  // The pod is on a node, and waits for an address there.
  void TellOfBound() {
    Add("pod",
        key_,
        false,
        "pod " + key_ + " is on node " + pod_.node + " and has no address yet" + NotCounted(),
        "kubectl -n " + pod_.name_space + " describe pod " + pod_.name +
            " shows why the node's agent refused; docs/troubleshooting.md explains it");
    const SeenNode* node = read_.world.nodes.Find(pod_.node);
    for (const auto& [name, pool] : read_.world.pools) {
      if (IsOfPod(pool)) TellOfPoolOn(pool, node);
    }
    if (node == nullptr) {
      return Add("node", pod_.node, false, "node " + pod_.node + " does not exist", "delete the pod");
    }
    for (const UnitRequest& request : pod_.requests) {
      Add("node",
          node->name,
          true,
          "node " + node->name + ": " + request.resource + " " +
              NumberOf(read_, counting_, *node, request.resource).says);
    }
  }

  // True: the pod may get addresses of the pool, as far as the pod's requests say. A pool that cannot be parsed may
  // have any resource. berthctl does not know the network configuration, which names the pools.
  [[nodiscard]] bool IsOfPod(const SeenPool& pool) const {
    return !pool.pool || pod_.requests.empty() || std::ranges::any_of(pod_.requests, [&](const UnitRequest& one) {
      return one.resource == pool.pool->resource;
    });
  }

  void TellOfPoolOn(const SeenPool& seen, const SeenNode* node) {
    const std::string& name = seen.meta.name;
    if (!seen.pool) {
      const Error error = CheckCounted(counting_, seen, nullptr).error();
      return Add("pool", name, false, error.message, error.details);
    }
    auto fine = ipam::CheckUsable(*seen.pool);
    if (fine) {
      fine = ipam::CheckAdmitted(*seen.pool,
                                 {.node = pod_.node,
                                  .node_labels = node == nullptr ? ipam::Labels() : node->labels,
                                  .pod_namespace = pod_.name_space,
                                  .namespace_labels = asked_.namespace_labels});
    }
    if (!fine) return Add("pool", name, false, fine.error().message, fine.error().details);
    if (!counting_.accepted.contains(seen.meta.uid)) return TellOfPool(seen);
    const reconciler::PoolCounts& counts = counting_.census.OfPool(seen.meta.uid);
    const bool is_shared = seen.pool->affinity == ipam::Affinity::kShared;
    std::int64_t free = 0;
    int blocks = 0;
    for (const ipam::Block* block : counting_.BlocksOf(is_shared ? "" : pod_.node, seen.meta.uid)) {
      if (block->deleting) continue;
      ++blocks;
      free += counting_.census.FreeIn(block->name);
    }
    const bool may_claim =
        counts.blocks_unclaimed > 0 && (seen.pool->max_blocks_per_node == 0 || blocks < seen.pool->max_blocks_per_node);
    const std::string where = is_shared ? "in its blocks" : "in its blocks of node " + pod_.node;
    std::string says = "pool " + name + " has " + std::to_string(free) + " free addresses " + where;
    if (may_claim) {
      says += ", and the node may claim one of " + ipam::ToString(counts.blocks_unclaimed) + " unclaimed blocks";
    } else if (counts.blocks_unclaimed > 0) {
      says += ", and the node may claim no more: spec.maxBlocksPerNode is " +
              std::to_string(seen.pool->max_blocks_per_node);
    } else if (!is_shared) {
      says +=
          ", and no block is unclaimed; all blocks of the pool have " + ipam::ToString(counts.free) + " free addresses";
    }
    const bool fits = free > 0 || may_claim;
    Add("pool", name, fits, says, fits ? "" : "end pods that have addresses of this pool, or use a larger pool");
  }

  // The pod waits for a node.
  void TellOfUnbound() {
    const std::string says =
        asked_.scheduler_says.empty() ? "" : "; the scheduler says " + Quoted(asked_.scheduler_says);
    if (pod_.requests.empty()) {
      return Add(
          "pod", key_, false, "pod " + key_ + " waits for a node, not for an address" + NotCounted() + says, kReadOn);
    }
    std::vector<std::pair<const SeenNode*, Verdict>> verdicts;
    for (const auto& [name, node] : read_.world.nodes.all()) verdicts.emplace_back(&node, Judge(node));
    std::ranges::stable_sort(verdicts, {}, [](const auto& item) { return item.second.distance; });
    const auto fitting =
        std::ranges::count_if(verdicts, [](const auto& item) { return item.second.distance == Distance::kNone; });
    Add("pod",
        key_,
        false,
        "pod " + key_ + " waits for a node: it requests " +
            (is_of_extender_ ? "nothing, but the scheduler extender looks for " : "") + Requests(pod_) + ", and " +
            std::to_string(fitting) + " of " + Count(std::ssize(verdicts), "node") + " could take the pod" + says,
        fitting == 0 ? ""
                     : "the pod does not wait for an address: kubectl -n " + pod_.name_space + " describe pod " +
                           pod_.name + " shows the cause");
    if (asked_.placement.bytes() > reconciler::kPlacementBytesMax) {
      Add("pod",
          key_,
          false,
          "the controller creates no block for the pod, because its nodeSelector, required node affinity and "
          "tolerations are too long: they need " +
              std::to_string(asked_.placement.bytes()) + " bytes, and the limit is " +
              std::to_string(reconciler::kPlacementBytesMax),
          "shorten them; docs/scheduling.md explains the limit");
    }
    if (pod_.requests.size() > reconciler::kNeedsMax) {
      Add("pod",
          key_,
          false,
          "the controller creates no block for the pod, because it requests " + std::to_string(pod_.requests.size()) +
              " different resources of berth, and the limit is " + std::to_string(reconciler::kNeedsMax),
          "request fewer resources");
    }
    for (const UnitRequest& request : pod_.requests) {
      if (std::ranges::none_of(counting_.pools.resource_of(),
                               [&](const auto& item) { return item.second == request.resource; })) {
        const bool are_all_readable =
            std::ranges::all_of(read_.world.pools, [](const auto& item) { return item.second.pool.has_value(); });
        Add("pool",
            "",
            false,
            std::string("no pool ") + (are_all_readable ? "" : "that can be read ") + "has the resource " +
                request.resource,
            std::string("correct the pod's request") + (are_all_readable ? "" : ", or the pool that cannot be read"));
      }
    }
    for (const auto& [name, pool] : read_.world.pools) {
      if (IsOfPod(pool)) TellOfPool(pool);
    }
    for (auto& [node, verdict] : verdicts) {
      Add("node",
          node->name,
          verdict.distance == Distance::kNone,
          "node " + node->name + " " + std::move(verdict.says),
          std::move(verdict.remedy));
    }
  }

  void TellOfPool(const SeenPool& seen) {
    const std::string& name = seen.meta.name;
    const bool is_shared = seen.pool && seen.pool->affinity == ipam::Affinity::kShared;
    if (is_of_extender_ && is_shared && ipam::CheckUsable(*seen.pool) && counting_.accepted.contains(seen.meta.uid)) {
      const reconciler::PoolCounts& counts = counting_.census.OfPool(seen.meta.uid);
      return Add("pool",
                 name,
                 counts.free > 0,
                 "pool " + name + " is Shared and has " + ipam::ToString(counts.free) + " of " +
                     ipam::ToString(counts.total) +
                     " addresses free; the extender offers them on every node that the pool admits");
    }
    auto fine = CheckCounted(counting_, seen, nullptr);
    if (fine && seen.pool) {
      ipam::Pool for_namespaces = *seen.pool;
      for_namespaces.node_selector.reset();
      fine = ipam::CheckAdmitted(for_namespaces,
                                 {.node = {},
                                  .node_labels = {},
                                  .pod_namespace = pod_.name_space,
                                  .namespace_labels = asked_.namespace_labels});
    }
    if (!fine) return Add("pool", name, false, fine.error().message, fine.error().details);
    const reconciler::PoolCounts& counts = counting_.census.OfPool(seen.meta.uid);
    const auto& nodes = read_.world.nodes.all();
    const auto admitted = std::ranges::count_if(
        nodes, [&](const auto& item) { return counting_.pools.Counts(seen.meta.uid, item.second); });
    std::string says = "pool " + name + " has " + ipam::ToString(counts.free) + " of " + ipam::ToString(counts.total) +
                       " addresses free, ";
    if (counts.blocks_unclaimed > 0) {
      says +=
          ipam::ToString(counts.blocks_unclaimed) + " of " + ipam::ToString(counts.blocks_max) + " blocks unclaimed, ";
    } else {
      says += counts.free > 0 ? "all of them in blocks that nodes have already, " : "no block unclaimed, ";
    }
    says += "and admits " + std::to_string(admitted) + " of " + Count(std::ssize(nodes), "node");
    if (admitted == 0) return Add("pool", name, false, says, "correct the pool's spec.nodeSelector, or label nodes");
    const bool fits = counts.free > 0;
    Add("pool",
        name,
        fits,
        says,
        fits ? "" : "the pool is full: end pods that have addresses of the pool, or add a pool of this resource");
  }

  // Returns the first reason, other than addresses, why the node cannot run the pod; nullopt if there is none.
  [[nodiscard]] std::optional<Verdict> NotForPod(const SeenNode& node) const {
    if (!node.is_ready) return Verdict{Distance::kNotForPod, "is not Ready"};
    if (!asked_.placement.Admits(node.name, node.labels, {})) {
      return Verdict{Distance::kNotForPod,
                     "does not match the pod's nodeSelector or required node affinity",
                     "change the pod's nodeSelector or affinity, or label the node"};
    }
    const reconciler::Placement anywhere{.node_selector = {}, .terms = {}, .tolerations = asked_.placement.tolerations};
    for (const reconciler::Taint& taint : node.taints) {
      if (anywhere.Admits(node.name, node.labels, {taint})) continue;
      return Verdict{Distance::kNotForPod,
                     "has the taint " + taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" +
                         taint.effect + ", which the pod does not tolerate",
                     "remove the taint, or let the pod tolerate it"};
    }
    const auto active = static_cast<std::int64_t>(counting_.counts.ActivePods(node.name));
    if (active < node.pods_max) return std::nullopt;
    return Verdict{Distance::kNotForPod,
                   "has no place for a pod: it has " + Count(active, "pod") + ", and its limit is " +
                       std::to_string(node.pods_max)};
  }

  // Judges by the controller's data whether the scheduler could place the pod on the node.
  [[nodiscard]] Verdict Judge(const SeenNode& node) const {
    if (auto verdict = NotForPod(node)) {
      for (const UnitRequest& request : pod_.requests) {
        verdict->says +=
            "; it has " + std::to_string(LeftOn(node, request.resource)) + " " + request.resource + " left";
      }
      return *std::move(verdict);
    }
    Verdict verdict;
    for (const UnitRequest& request : pod_.requests) {
      Verdict one = JudgeNumber(node, request);
      if (one.distance > verdict.distance) {
        verdict = std::move(one);
      } else if (verdict.distance == Distance::kNone) {
        verdict.says += (verdict.says.empty() ? "" : ", and ") + one.says;
      }
    }
    return verdict;
  }

  // The units of the resource that the scheduler can still give to pods on the node.
  [[nodiscard]] std::int64_t LeftOn(const SeenNode& node, const std::string& resource) const {
    const auto shown = node.numbers.find(resource);
    const auto& tallies = counting_.counts.Of(node.name);
    const auto tally = tallies.find(resource);
    const std::int64_t allocatable = shown == node.numbers.end() ? 0 : shown->second.allocatable.value_or(0);
    return std::max<std::int64_t>(0, allocatable - (tally == tallies.end() ? 0 : tally->second.requested));
  }

  [[nodiscard]] Verdict JudgeNumber(const SeenNode& node, const UnitRequest& request) const {
    const NodeNumber number = NumberOf(read_, counting_, node, request.resource);
    const std::int64_t left = LeftOn(node, request.resource);
    const std::string says =
        "has " + std::to_string(left) + " " + request.resource + " left for pods: it " + number.says;
    if (left >= request.units) return {Distance::kNone, says};
    if (number.wanted && number.tally.Left() >= request.units) {
      return {Distance::kSoon, says, "wait: the controller corrects the number"};
    }
    return WithObstacle(node, request, says);
  }

  // Finds for each pool of the requested resource why the node cannot get a block of the pool now. Returns the verdict
  // with the smallest distance.
  [[nodiscard]] Verdict WithObstacle(const SeenNode& node, const UnitRequest& request, const std::string& says) const {
    Verdict nearest{Distance::kNotCounted,
                    says,
                    "correct what keeps the pools of " + request.resource + " from this node, or add a pool"};
    const reconciler::DemandScope scope{
        .world = read_.world, .census = counting_.census, .counts = counting_.counts, .pools = counting_.pools};
    for (const auto& [uid, pool] : counting_.pools.counted()) {
      if (pool->resource != request.resource) continue;
      const auto has = std::ranges::count_if(counting_.BlocksOf(node.name, uid),
                                             [](const ipam::Block* block) { return !block->deleting; });
      Verdict one{Distance::kNotCounted, says};
      switch (reconciler::ObstacleOf(scope, *pool, node, static_cast<int>(has), 0)) {
        case BlockObstacle::kNone:
          one = {Distance::kSoon,
                 says,
                 "2 s after the scheduler calls the pod Unschedulable, the controller creates a block of pool " +
                     pool->name + " for this node or for another node that can run the pod"};
          break;
        case BlockObstacle::kAllTaken:
          one = {Distance::kBlockOfOthers,
                 says,
                 "all blocks of pool " + pool->name +
                     " exist: the controller takes an empty block from another node; if no block is empty, end pods "
                     "on this node, or add a pool of this resource"};
          break;
        case BlockObstacle::kLimit:
          one = {Distance::kLimit,
                 says,
                 "end pods on this node, or raise spec.maxBlocksPerNode of pool " + pool->name + " above " +
                     std::to_string(pool->max_blocks_per_node)};
          break;
        case BlockObstacle::kRefused:
          break;
      }
      if (one.distance < nearest.distance) nearest = std::move(one);
    }
    return nearest;
  }

  const CountedWorld& read_;
  const Counting& counting_;
  const std::string& key_;
  SeenPod pod_;
  const AskedPod asked_;
  bool is_of_extender_ = false;
  Json rows_ = Json::array();
};

}  // namespace

Expected<Json> Why(const CountedWorld& read, const Counting& counting, const std::string& pod) {
  const std::size_t slash = pod.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == pod.size()) {
    return Fail(ErrorCode::kInvalid, Quoted(pod) + " is not a pod", "write <namespace>/<pod>");
  }
  const SeenPod* found = read.world.pods.Find(pod);
  if (found == nullptr && read.asked) {
    return Fail(ErrorCode::kInvalid,
                "pod " + Quoted(pod) + " cannot be read, so berth ignores the pod",
                "see: kubectl get pod -o yaml");
  }
  if (found == nullptr) {
    return Fail(ErrorCode::kNotFound,
                "pod " + Quoted(pod) + " does not exist",
                "see all: kubectl get pods -A; what an earlier pod of that name has: berthctl who " + pod);
  }
  return Answer(read, counting, pod, *found).Rows();
}

std::string PrintWhy(const Json& rows, Format format) {
  if (format != Format::kTable) return Print(rows, format);
  std::string text;
  std::size_t nodes = 0;
  for (const Json& row : rows) {
    if (row["about"] == "node" && ++nodes > kNodesPrinted) continue;
    const std::string indent = row["about"] == "pod" ? "" : "  ";
    text += indent + row["says"].get<std::string>() + "\n";
    if (const auto remedy = row["remedy"].get<std::string>(); !remedy.empty()) text += indent + "    " + remedy + "\n";
  }
  if (nodes > kNodesPrinted) {
    text += "  and " + std::to_string(nodes - kNodesPrinted) +
            " more nodes, which are no better for the pod; -o json shows them\n";
  }
  return text;
}

}  // namespace berth::cli
