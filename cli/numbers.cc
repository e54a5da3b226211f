// SPDX-License-Identifier: Apache-2.0
// Compares the counts that Nodes show with the controller's own counting.
#include "cli/numbers.h"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "ipam/pool_choice.h"
#include "reconciler/decide_numbers.h"

namespace berth::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kIfItLasts =
    "; possible causes if the number stays wrong: no controller runs, the controller runs with --count=off, or the "
    "controller is about to delete a block of the node";

std::string Figures(const NodeNumber& number) {
  const auto& tally = number.tally;
  std::string text = std::to_string(tally.usable) + " free + " + std::to_string(tally.held) + " held; pods request " +
                     std::to_string(tally.requested) + "; " + std::to_string(number.blocks) +
                     (number.blocks == 1 ? " block" : " blocks");
  if (number.other_blocks > 0) text += ", " + std::to_string(number.other_blocks) + " more not included";
  return text;
}

std::string WhyNoNumber(const CountedWorld& read, const Counting& counting, const reconciler::SeenNode& node,
                        const std::string& resource, const NodeNumber& number) {
  const auto& tally = number.tally;
  if (!node.is_ready && !reconciler::AreManyNotReady(read.world)) return "the node is not Ready";
  std::string text;
  if (tally.Sum() < tally.requested) {
    text = "its pods request " + std::to_string(tally.requested) + ", more than " + std::to_string(tally.usable) +
           " free + " + std::to_string(tally.held) + " held by them";
  }
  if (tally.is_counted) return text;
  std::string reasons;
  for (const auto& [name, pool] : read.world.pools) {
    // A pool that cannot be read may be a pool of the resource.
    if (pool.pool && pool.pool->resource != resource) continue;
    const auto counted = CheckCounted(counting, pool, &node);
    if (!counted) reasons += (reasons.empty() ? ": " : "; ") + counted.error().message;
  }
  if (reasons.empty()) reasons = ": there is no such pool";
  return text + (text.empty() ? "" : "; ") + "no pool of " + resource + " gives the node a number" + reasons;
}

std::string Says(const CountedWorld& read, const Counting& counting, const reconciler::SeenNode& node,
                 const std::string& resource, const NodeNumber& number) {
  std::string text = number.shown ? "shows " + std::to_string(*number.shown) : "shows no number";
  if (const auto found = node.numbers.find(resource);
      found != node.numbers.end() && found->second.capacity != found->second.allocatable) {
    text += " (capacity and allocatable differ)";
  }
  if (number.wanted) {
    text += ", should show " + std::to_string(*number.wanted) + ": " + Figures(number);
  } else {
    text += std::string(number.shown ? ", should show no number" : "") + ": " +
            WhyNoNumber(read, counting, node, resource, number);
  }
  if (number.shown && number.wanted > number.shown) {
    text += std::string("; the controller raises a number within 2 s") + kIfItLasts;
  } else if (number.shown && number.wanted != number.shown) {
    text +=
        std::string("; before the controller lowers this number, it waits 5 s and lists the node's pods") + kIfItLasts;
  } else if (!number.shown && number.wanted) {
    text += std::string("; the controller writes a missing number after 3 s") + kIfItLasts;
  }
  return text;
}

Json OrNull(std::optional<std::int64_t> number) { return number ? Json(*number) : Json(); }

}  // namespace

Expected<void> CheckCounted(const Counting& counting, const reconciler::SeenPool& pool,
                            const reconciler::SeenNode* node) {
  const std::string name = "pool " + pool.meta.name;
  if (!pool.pool) {
    return Fail(ErrorCode::kInvalid,
                name + " cannot be read: " + pool.problem,
                "correct the pool: kubectl edit ippool " + pool.meta.name);
  }
  if (auto usable = ipam::CheckUsable(*pool.pool); !usable) return usable;
  if (!counting.accepted.contains(pool.meta.uid)) {
    return Fail(ErrorCode::kInvalid,
                name + " is not in the list of pools that space " + pool.pool->space + " has accepted",
                "is berth-controller running?");
  }
  if (pool.pool->resource.empty()) {
    return Fail(ErrorCode::kInvalid,
                name + " has no resource: spec.resource is empty",
                "set spec.resource: only a pool with a resource gives nodes a number");
  }
  if (pool.pool->affinity == ipam::Affinity::kShared) {
    return Fail(ErrorCode::kInvalid,
                name + " is Shared: its free addresses belong to all nodes at once, so it gives no node a number",
                "use a pool of affinity Node, or remove the requests for this resource from the pods");
  }
  if (counting.pools.of_mixed_namespaces().contains(pool.meta.uid)) {
    return Fail(ErrorCode::kInvalid,
                name + " gives no node a number: other pools of " + pool.pool->resource +
                    " have another spec.namespaceSelector, or none",
                "give this pool a spec.resource of its own");
  }
  if (node == nullptr || counting.pools.Counts(pool.meta.uid, *node)) return {};
  ipam::Pool for_nodes = *pool.pool;
  for_nodes.namespace_selector.reset();
  return ipam::CheckAdmitted(
      for_nodes, {.node = node->name, .node_labels = node->labels, .pod_namespace = {}, .namespace_labels = {}});
}

NodeNumber NumberOf(const CountedWorld& read, const Counting& counting, const reconciler::SeenNode& node,
                    const std::string& resource) {
  NodeNumber number;
  const auto& tallies = counting.counts.Of(node.name);
  if (const auto tally = tallies.find(resource); tally != tallies.end()) number.tally = tally->second;
  if (const auto shown = node.numbers.find(resource); shown != node.numbers.end()) {
    number.shown = shown->second.Highest();
  }
  number.wanted = reconciler::NumberDecider::Wanted(read.world, node, number.tally);
  for (const auto& [uid, of_pool] : counting.pools.resource_of()) {
    if (of_pool != resource) continue;
    for (const ipam::Block* block : counting.BlocksOf(node.name, uid)) {
      const bool counts = !block->deleting && counting.pools.Counts(uid, node);
      ++(counts ? number.blocks : number.other_blocks);
    }
  }
  number.says = Says(read, counting, node, resource, number);
  return number;
}

Json NodeRows(const CountedWorld& read, const Counting& counting) {
  std::set<std::string> of_pools;
  for (const auto& [uid, resource] : counting.pools.resource_of()) of_pools.insert(resource);
  Json rows = Json::array();
  for (const auto& [name, node] : read.world.nodes.all()) {
    std::set<std::string> resources = of_pools;
    for (const auto& [resource, shown] : node.numbers) resources.insert(resource);
    for (const auto& [resource, tally] : counting.counts.Of(name)) resources.insert(resource);
    for (const std::string& resource : resources) {
      const NodeNumber number = NumberOf(read, counting, node, resource);
      rows.push_back({{"node", name},
                      {"resource", resource},
                      {"published", OrNull(number.shown)},
                      {"wanted", OrNull(number.wanted)},
                      {"free", number.tally.usable},
                      {"held", number.tally.held},
                      {"requested", number.tally.requested},
                      {"blocks", number.blocks},
                      {"says", number.says}});
    }
  }
  return rows;
}

std::string PrintNodes(const Json& rows, Format format) {
  if (format != Format::kTable) return Print(rows, format);
  Json sentences = Json::array();
  for (const Json& row : rows) {
    sentences.push_back({{"node", row["node"]}, {"resource", row["resource"]}, {"says", row["says"]}});
  }
  return Print(sentences, format);
}

}  // namespace berth::cli
