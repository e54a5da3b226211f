// SPDX-License-Identifier: Apache-2.0
// Check: one function for each rule.
#include "cli/check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "ipam/interval_set.h"
#include "ipam/pool_choice.h"

namespace berth::cli {

namespace {

using nlohmann::json;

class Checker {
 public:
  explicit Checker(const Inventory& inventory)
      : inventory_(inventory), uses_(UsesOf(inventory)), in_blocks_(RangesOf(inventory)) {}

  std::vector<Finding> Run() && {
    FindUnreadable();
    FindUnready();
    FindStrayBlocks();
    FindDuplicates();
    FindGonePods();
    FindUncheckedMarks();
    FindUnassignable();
    FindUnrecordedPods();
    FindAllocations();
    FindCounts();
    std::ranges::sort(findings_);
    return std::move(findings_);
  }

 private:
  static ipam::IntervalSet RangesOf(const Inventory& inventory) {
    std::vector<ipam::AddressRange> ranges;
    for (const ipam::Block& block : inventory.blocks) ranges.push_back(ipam::AddressRange::Of(block.cidr));
    return ipam::IntervalSet(ranges);
  }
  void Add(Finding finding) { findings_.push_back(std::move(finding)); }
  static std::string NameOf(const ipam::Block& block) { return "ipblock/" + block.name; }
  static std::string NameOf(const ipam::HeldEntry& entry) { return entry.pod_namespace + "/" + entry.pod; }
  static Finding About(const Use& use, std::string kind, std::string message, std::string remedy) {
    return {.kind = std::move(kind),
            .object = NameOf(*use.block),
            .space = use.block->space,
            .address = use.address().ToString(),
            .message = std::move(message),
            .remedy = std::move(remedy)};
  }

  void FindUnreadable() {
    for (const Error& error : inventory_.unreadable) {
      Add({.kind = "unreadable", .message = error.message, .remedy = "correct the field that the message names"});
    }
  }

  // A pool that somebody has disabled or deleted is not Ready on purpose.
  void FindUnready() {
    for (const SeenPool& seen : inventory_.pools) {
      if (seen.pool.disabled || seen.pool.deleting) continue;
      const auto usable = ipam::CheckUsable(seen.pool);
      if (usable) continue;
      Add({.kind = "not-ready",
           .object = "ippool/" + seen.pool.name,
           .message = usable.error().message,
           .remedy = usable.error().details});
    }
  }

  void FindStrayBlocks() {
    for (const ipam::Block& block : inventory_.blocks) {
      const SeenPool* pool = inventory_.FindPool(block.pool_uid);
      if (inventory_.unreadable_pools.contains(block.pool_uid)) continue;  // FindUnreadable reports the pool
      if (pool == nullptr) {
        Add({.kind = "stray-block",
             .object = NameOf(block),
             .message = "the block's pool " + block.pool + " with uid " + block.pool_uid + " does not exist",
             .remedy =
                 "end the pods that have addresses of this block (berthctl show addresses): the controller deletes the "
                 "block once it is empty"});
      } else if (!pool->pool.subnet.Contains(block.cidr)) {
        Add({.kind = "stray-block",
             .object = NameOf(block),
             .message =
                 "the block is outside the subnet " + pool->pool.subnet.ToString() + " of its pool " + block.pool,
             .remedy = "delete the block: the API server removes the block once its last address is free"});
      }
      if (!block.shared() && !inventory_.nodes.contains(block.node)) {
        Add({.kind = "stray-block",
             .object = NameOf(block),
             .message = "the block's node " + block.node + " does not exist",
             .remedy = "once the node is gone for good, release the addresses of the block: berthctl release"});
      }
    }
  }

  // Checks that an address has at most one holder in a space: no two blocks overlap, and no two pods have one address.
  void FindDuplicates() {
    std::vector<const ipam::Block*> blocks;
    for (const ipam::Block& block : inventory_.blocks) blocks.push_back(&block);
    std::ranges::sort(
        blocks, {}, [](const ipam::Block* b) { return std::tuple(b->space, b->cidr.First(), b->cidr.length()); });
    const ipam::Block* before = nullptr;  // the block before `block` that ends last
    for (const ipam::Block* block : blocks) {
      if (before == nullptr || before->space != block->space || !before->cidr.Overlaps(block->cidr)) {
        before = block;
        continue;
      }
      Add({.kind = "duplicate",
           .object = NameOf(*block),
           .message = "the block overlaps " + NameOf(*before) + ": an address may be held twice",
           .remedy = "delete the block that has fewer pods, and restart the pods of that block"});
      if (before->cidr.Last() < block->cidr.Last()) before = block;
    }
    std::map<ipam::Address, std::vector<std::string>> pods;
    for (const auto& [name, pod] : inventory_.pods) {
      if (pod.host_network || pod.ended()) continue;
      for (const ipam::Address address : pod.addresses) {
        if (in_blocks_.Contains(address)) pods[address].push_back(pod.name_space + "/" + pod.name);
      }
    }
    // Two spaces may contain the same addresses.
    std::map<ipam::Address, std::set<std::string>> spaces;
    for (const Use& use : uses_) {
      if (use.held() != nullptr) spaces[use.address()].insert(use.block->space);
    }
    for (const auto& [address, names] : pods) {
      if (names.size() < 2 || names.size() <= spaces[address].size()) continue;
      Add({.kind = "duplicate",
           .object = "pod/" + names[0],
           .address = address.ToString(),
           .message = "pod " + names[1] + " has the same address",
           .remedy = "restart one of the two pods"});
    }
  }

  // A missing mirror pod does not prove that a static pod is gone, and an entry without a pod's name cannot be checked.
  void FindGonePods() {
    for (const Use& use : uses_) {
      const ipam::HeldEntry* held = use.held();
      if (held == nullptr || held->pod.empty() || held->pod_namespace.empty()) continue;
      const Pod* pod = inventory_.FindPod(held->pod_namespace, held->pod);
      const bool is_static = !held->uid.empty() && !held->uid.contains('-');
      if (pod == nullptr && is_static) continue;
      const std::string& space = use.block->space;
      const std::string remedy =
          "berthctl release " + use.address().ToString() + (space == ipam::kDefaultSpace ? "" : " --space " + space);
      if (pod == nullptr) {
        Add(About(use, "pod-gone", "pod " + NameOf(*held) + " does not exist", remedy));
      } else if (!IsOf(*held, *pod)) {
        Add(About(
            use, "pod-gone", "pod " + NameOf(*held) + " has been replaced by another pod of the same name", remedy));
      } else if (pod->ended()) {
        Add(About(use, "pod-gone", "pod " + NameOf(*held) + " has ended: " + pod->phase, remedy));
      }
    }
  }

  // Finds freed addresses that no agent has checked ten minutes after their cooling time. No pod gets such an address.
  void FindUncheckedMarks() {
    constexpr std::int64_t kLateMs = 600'000;  // an agent that runs needs seconds
    for (const Use& use : uses_) {
      const std::string& text = use.block->allocations.at(use.offset);
      const auto until = ipam::CoolingUntil(text, inventory_.now_ms);
      if (!until || *until + kLateMs > inventory_.now_ms || !ipam::FreedUnder(text)) continue;
      const std::string space = use.block->space == ipam::kDefaultSpace ? "" : " --space " + use.block->space;
      Add(About(use,
                "not-checked",
                "the address is freed, but no agent has checked whether a container still has it",
                "start the agent of node " + use.node() +
                    "; if the node has no agent, make sure that no container has the address, and run: berthctl "
                    "release " +
                    use.address().ToString() + space + " --sure"));
    }
  }

  // Finds held addresses that the pool gives to no pod any more. A pod keeps its address although somebody reserves the
  // address later, and the machine for which it is reserved may use it already.
  void FindUnassignable() {
    const ipam::Block* block = nullptr;
    const SeenPool* seen = nullptr;
    ipam::IntervalSet assignable;
    for (const Use& use : uses_) {
      if (use.block != block) {
        block = use.block;
        seen = inventory_.FindPool(block->pool_uid);
        if (seen != nullptr) assignable = ipam::AssignableIn(seen->pool, block->cidr);
      }
      if (use.held() == nullptr || seen == nullptr || !seen->pool.subnet.Contains(use.address()) ||
          assignable.Contains(use.address())) {
        continue;
      }
      Add(About(use,
                "not-assignable",
                (use.held()->pod.empty() ? "an unknown pod" : "pod " + NameOf(*use.held())) +
                    " has an address that pool " + seen->pool.name +
                    " gives to no pod any more, because it is a gateway, reserved, in a small gap between "
                    "reservations, or excluded by the pool's spec",
                "restart the pod, so that it gets another address"));
    }
  }

  // Finds pods that have not ended and have an address of a block, although no entry of the address names the pod.
  void FindUnrecordedPods() {
    std::map<ipam::Address, std::vector<const Use*>> held;
    for (const Use& use : uses_) held[use.address()].push_back(&use);
    for (const auto& [name, pod] : inventory_.pods) {
      if (pod.host_network || pod.ended()) continue;
      for (const ipam::Address address : pod.addresses) {
        const auto& there = held[address];
        const bool is_recorded = std::ranges::any_of(there, [&](const Use* use) {
          return use->held() == nullptr ? std::holds_alternative<ipam::OpaqueEntry>(use->entry)
                                        : use->held()->pod.empty() || IsOf(*use->held(), pod);
        });
        if (is_recorded || !in_blocks_.Contains(address)) continue;
        Add({.kind = "not-recorded",
             .object = "pod/" + pod.name_space + "/" + pod.name,
             .address = address.ToString(),
             .message = there.empty() ? "no block has an entry for the pod's address"
                                      : "the entry of the pod's address in " + NameOf(*there[0]->block) +
                                            " does not name this pod",
             .remedy = "restart the pod: until then, berth may give the address to another pod"});
      }
    }
  }

  // If no IPAllocation exists at all, assumes that the controller runs with --allocations=off.
  void FindAllocations() {
    if (inventory_.allocations.empty()) return;
    // Namespace, pool and address. Two pools of different spaces may contain the same addresses.
    using Key = std::tuple<std::string, std::string, ipam::Address>;
    std::set<Key> allocated;
    std::set<Key> held;
    for (const Use& use : uses_) {
      if (use.held() != nullptr) held.emplace(use.held()->pod_namespace, use.block->pool, use.address());
    }
    for (const crds::Allocation& allocation : inventory_.allocations) {
      for (const crds::AllocatedAddress& item : allocation.addresses) {
        const Key key(allocation.meta.name_space, item.pool, item.address);
        allocated.insert(key);
        if (held.contains(key)) continue;
        Add({.kind = "allocation-without-entry",
             .object = "ipallocation/" + allocation.meta.name_space + "/" + allocation.meta.name,
             .address = item.address.ToString(),
             .message = "no block has an entry for this address",
             .remedy =
                 "the controller deletes such IPAllocations: if this IPAllocation stays, see the controller's log"});
      }
    }
    for (const Use& use : uses_) {
      const ipam::HeldEntry* entry = use.held();
      if (entry == nullptr || entry->pod_namespace.empty() || entry->pod.empty()) continue;
      if (allocated.contains({entry->pod_namespace, use.block->pool, use.address()})) continue;
      Add(About(use,
                "entry-without-allocation",
                "pod " + NameOf(*entry) + " has no IPAllocation for this address",
                "the controller creates such IPAllocations: if none appears, see the controller's log"));
    }
  }

  void FindCounts() {
    for (const SeenPool& seen : inventory_.pools) {
      std::int64_t blocks = 0;
      ipam::Uint128 used = 0;
      for (const ipam::Block& block : inventory_.blocks) {
        if (block.pool_uid == seen.pool.uid) ++blocks;
      }
      for (const Use& use : uses_) {
        const bool is_held = use.held() != nullptr || std::holds_alternative<ipam::OpaqueEntry>(use.entry);
        if (is_held && use.block->pool_uid == seen.pool.uid) ++used;
      }
      const auto compare = [&](const char* field, const std::string& says, const std::string& is) {
        if (says == is) return;
        Add({.kind = "count",
             .object = "ippool/" + seen.pool.name,
             .message = std::string("status.") + field + " is " + says + ", but the blocks add up to " + is,
             .remedy = "check whether the controller runs: the controller counts every 10 s"});
      };
      compare("blocks", std::to_string(seen.status.blocks), std::to_string(blocks));
      compare("used", ipam::ToString(seen.status.used), ipam::ToString(used));
    }
  }

  const Inventory& inventory_;
  std::vector<Use> uses_;
  ipam::IntervalSet in_blocks_;  // all addresses of blocks
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> Check(const Inventory& inventory) { return Checker(inventory).Run(); }

std::vector<Finding> InBoth(const std::vector<Finding>& first, const std::vector<Finding>& second) {
  std::vector<Finding> both;
  std::ranges::set_intersection(first, second, std::back_inserter(both));
  return both;
}

json ReportOf(const Inventory& inventory, const std::vector<Finding>& findings) {
  json list = json::array();
  for (const Finding& finding : findings) {
    json item = {{"kind", finding.kind}, {"message", finding.message}, {"remedy", finding.remedy}};
    if (!finding.object.empty()) item["object"] = finding.object;
    if (!finding.address.empty()) item["address"] = finding.address;
    if (!finding.space.empty()) item["space"] = finding.space;
    list.push_back(std::move(item));
  }
  return {{"findings", std::move(list)},
          {"pools", inventory.pools.size()},
          {"blocks", inventory.blocks.size()},
          {"allocations", inventory.allocations.size()},
          {"pods", inventory.pods.size()}};
}

}  // namespace berth::cli
