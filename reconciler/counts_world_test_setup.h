// SPDX-License-Identifier: Apache-2.0
// For tests only: a world whose counts are read after each change.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reconciler/counts.h"
#include "reconciler/world_test_setup.h"

namespace berth::reconciler {

// "default/web-1 6f1d ..." as an agent writes it.
inline std::string EntryOf(const std::string& pod, const std::string& uid, const std::string& node = "") {
  return "default/" + pod + " " + (uid.empty() ? "-" : uid) + " 0123456789ab-0123456789abcdef i=eth0 t=1" +
         (node.empty() ? "" : " n=" + node);
}
inline const std::string kCooling = "~ t=" + std::to_string(kTestNowMs + 5000);
inline const std::string kCooled = "~ t=" + std::to_string(kTestNowMs - 1);

// Nodes n1 and n2, and the pool "v4" with blocks of eight addresses and the resource ipv4.
class CountsWorld {
 public:
  CountsWorld() {
    t_.world.knows_holders = true;
    Node("n1").Node("n2");
    Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  }
  CountsWorld& Node(const std::string& name, const ipam::Labels& labels = {}) {
    t_.world.nodes.PutShown({.name = name, .uid = "uid-of-" + name, .is_ready = true, .labels = labels}, {});
    return *this;
  }
  CountsWorld& Pool(const std::string& name, json spec, bool is_ready = true, bool is_deleting = false) {
    t_.Pool(name, std::move(spec), {.is_deleting = is_deleting, .is_ready = is_ready});
    if (is_deleting) pools_.erase("uid-of-" + name);
    return *this;
  }
  CountsWorld& Block(const std::string& cidr, std::map<ipam::BlockOffset, std::string> entries = {},
                     const BlockTraits& traits = {}, const std::string& pool = "v4") {
    t_.Block(cidr, pool, std::move(entries), traits);
    return *this;
  }
  CountsWorld& Pod(SeenPod pod) {
    pod.name_space = "default";
    if (pod.uid.empty()) pod.uid = "uid-of-" + pod.name;
    t_.world.pods.Put(std::move(pod), {});
    return *this;
  }
  // A pod on n1 that requests one address.
  CountsWorld& Asking(const std::string& name) { return Pod({.name = name, .node = "n1", .requests = {{"ipv4", 1}}}); }
  CountsWorld& Remove(const std::string& pod) {
    t_.world.pods.Remove(NamespacedName("default", pod), {});
    return *this;
  }
  CountsWorld& Leave(const std::string& block) {
    leaving_[block] = std::nullopt;
    return *this;
  }

  void Update() {
    pools_.clear();
    for (const auto& [name, seen] : t_.world.pools) {
      pools_.emplace(seen.meta.uid, CountedPool{.pool = *seen.pool, .generation = generation_});
      pools_.at(seen.meta.uid).pool.withheld = seen.status.withheld;
    }
    ++generation_;
    census_.Take(t_.world, pools_, t_.now.unix_ms);
    held_.Update(t_.world);
    counted_ = CountedPools(t_.world, pools_);
    counts_.Update(Scope());
    t_.world.pods.ForgetTouched();
  }
  // "usable+held-requested=number" of a node.
  std::string Of(const std::string& resource = "ipv4", const std::string& node = "n1") {
    Update();
    const NodeTally& all = counts_.Of(node);
    const auto found = all.find(resource);
    const Tally tally = found == all.end() ? Tally() : found->second;
    const auto number = tally.Number();
    return std::to_string(tally.usable) + "+" + std::to_string(tally.held) + "-" + std::to_string(tally.requested) +
           "=" + (number ? std::to_string(*number) : "none");
  }
  // The same, counted by an object that has seen nothing before.
  std::map<std::string, NodeTally> Anew() {
    HeldEntries held;
    held.Update(t_.world);
    Census census;
    census.Take(t_.world, pools_, t_.now.unix_ms);
    Counts counts;
    counts.Update({.world = t_.world, .census = census, .pools = counted_, .held = held, .leaving = leaving_});
    return counts.all();
  }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  TestWorld& world() { return t_; }

 private:
  Counts::Scope Scope() {
    return {.world = t_.world, .census = census_, .pools = counted_, .held = held_, .leaving = leaving_};
  }

  TestWorld t_;
  std::map<std::string, CountedPool> pools_;
  std::int64_t generation_ = 1;
  Census census_;
  HeldEntries held_;
  CountedPools counted_;
  LeavingBlocks leaving_;
  Counts counts_;
};

inline json SpecOf(std::initializer_list<std::pair<const std::string, json>> more) {
  json spec = {{"subnet", "10.66.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}};
  for (const auto& [key, value] : more) spec[key] = value;
  return spec;
}

}  // namespace berth::reconciler
