// SPDX-License-Identifier: Apache-2.0
// For tests only: a world whose Nodes, pods and blocks change as the controller decides, second by second.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {

// The pool "v4" with blocks of eight addresses and the resource ipv4. What the controller decides is done at once;
// `watch_shows` says whether the watch shows what is written to a Node.
class NumbersWorld {
 public:
  using Lines = std::vector<std::string>;

  explicit NumbersWorld(json spec = {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}}) {
    t_.decider = Decider({.reclaim = Reclaim::kOn, .counts = true});
    t_.world.knows_holders = true;
    t_.Pool("v4", std::move(spec), {.is_ready = true}).Space("default", {"v4"});
  }

  NumbersWorld& Node(const std::string& name, bool is_ready = true, const ipam::Labels& labels = {},
                     std::int64_t pods_max = 110) {
    SeenNode node{.name = name, .uid = "uid-of-" + name, .is_ready = is_ready, .labels = labels, .pods_max = pods_max};
    if (const SeenNode* before = t_.world.nodes.Find(name)) node.numbers = before->numbers;
    t_.world.nodes.PutShown(std::move(node), t_.now.steady);
    return *this;
  }
  // Somebody edits the Node.
  NumbersWorld& Shows(const std::string& name, std::optional<std::int64_t> number) {
    SeenNode node = *t_.world.nodes.Find(name);
    node.numbers.clear();
    if (number) node.numbers["ipv4"] = {.capacity = number, .allocatable = number};
    t_.world.nodes.PutShown(std::move(node), t_.now.steady);
    return *this;
  }
  NumbersWorld& RemoveNode(const std::string& name) {
    t_.world.nodes.Remove(name);
    return *this;
  }
  NumbersWorld& Block(const std::string& cidr, const std::string& node = "n1", bool is_deleting = false) {
    t_.Block(cidr, "v4", {}, {.is_deleting = is_deleting, .node = node});
    return *this;
  }
  // A block in which pods that request nothing hold all eight addresses.
  NumbersWorld& Full(const std::string& cidr, const std::string& node = "n1") {
    std::map<ipam::BlockOffset, std::string> entries;
    for (ipam::BlockOffset i = 0; i < 8; ++i) entries[i] = kHeldEntry;
    t_.Block(cidr, "v4", std::move(entries), {.node = node});
    return *this;
  }
  // A pod on the node that requests `units` and has no entries.
  NumbersWorld& Bound(const std::string& name, std::int64_t units = 1, const std::string& node = "n1") {
    t_.world.pods.Put({.name_space = "default", .name = name, .uid = name, .node = node, .requests = {{"ipv4", units}}},
                      t_.now.steady);
    return *this;
  }
  // A pod that the API server has, and that the watch of pods has not shown.
  NumbersWorld& BoundUnseen(const std::string& name, std::int64_t units = 1, const std::string& node = "n1") {
    unseen_.push_back(
        {.name_space = "default", .name = name, .uid = name, .node = node, .requests = {{"ipv4", units}}});
    return *this;
  }
  // A pod for which the scheduler finds no node.
  NumbersWorld& Waiting(const std::string& name, Placement placement = {}, std::int64_t units = 1) {
    return WaitingFor(name, {{"ipv4", units}}, std::move(placement));
  }
  NumbersWorld& WaitingFor(const std::string& name, std::vector<UnitRequest> requests, Placement placement = {}) {
    t_.world.pods.Put({.name_space = "default",
                       .name = name,
                       .uid = name,
                       .requests = std::move(requests),
                       .is_unschedulable = true,
                       .placement = SharedPlacement(std::move(placement))},
                      t_.now.steady);
    return *this;
  }
  NumbersWorld& Gone(const std::string& pod) {
    t_.world.pods.Remove(NamespacedName("default", pod), t_.now.steady);
    return *this;
  }
  NumbersWorld& Disable() {
    t_.Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}, {"disabled", true}});
    return *this;
  }

  // Lets `count` seconds pass. Decides at once and, like the controller, again at each time for which a decision asks
  // (WakeAt). Returns what is done in this time, each with its second.
  Lines Pass(int count) {
    Lines lines;
    for (int i = 0; i <= count; ++i) {
      if (i == 0 || IsDue()) {
        for (const std::string& line : Decide()) lines.push_back(std::to_string(i) + ": " + line);
      }
      t_.now.steady += std::chrono::seconds(1);
      t_.now.unix_ms += 1000;
    }
    return lines;
  }
  [[nodiscard]] std::string Shown(const std::string& node = "n1") const {
    const SeenNode* seen = t_.world.nodes.Find(node);
    if (seen == nullptr) return "no node";
    const auto number = seen->numbers.find("ipv4");
    return number == seen->numbers.end() ? "none" : std::to_string(number->second.allocatable.value_or(-1));
  }
  TestWorld& world() { return t_; }
  bool watch_shows = true;  // whether the watch shows what the controller writes to Nodes

 private:
  // Decides until nothing is left to do: what follows from an action is decided at once, as in the controller's next
  // pass.
  Lines Decide() {
    Lines lines;
    for (int pass = 0; pass < 4; ++pass) {
      const Decision decision = t_.Decide(/*relisted=*/false);
      wake_steady_ = decision.wake_steady;
      wake_unix_ms_ = decision.wake_unix_ms;
      t_.world.pods.ForgetTouched();
      bool did = false;
      for (const Action& action : decision.actions) did = Do(action, lines) || did;
      if (!did) break;
    }
    return lines;
  }

  [[nodiscard]] bool IsDue() const {
    return (wake_steady_ && *wake_steady_ <= t_.now.steady) || (wake_unix_ms_ && *wake_unix_ms_ <= t_.now.unix_ms);
  }

  bool Do(const Action& action, Lines& lines) {
    if (const auto* status = std::get_if<SetPoolStatus>(&action)) {
      t_.world.pools.at(status->pool).status = status->status;
      return false;
    }
    if (const auto* list = std::get_if<ListPods>(&action)) {
      ControllerState::PodsListed listed{.at = t_.now.steady, .pods = unseen_};
      for (const auto& [key, pod] : t_.world.pods.all()) {
        if (pod.node == list->node) listed.pods.push_back(pod);
      }
      t_.state.pods_listed.insert_or_assign(list->node, std::move(listed));
      lines.push_back(std::visit(ActionText(), action));
      return true;
    }
    if (const auto* show = std::get_if<ShowNumbers>(&action)) {
      if (!t_.state.node_patches.Take(t_.now.steady)) {
        wake_steady_ = t_.now.steady;
        return false;
      }
      SeenNode node = *t_.world.nodes.Find(show->node);
      for (const auto& [resource, number] : show->numbers) {
        node.numbers.erase(resource);
        if (number) node.numbers[resource] = {.capacity = number, .allocatable = number};
      }
      t_.state.numbers_written[show->node] = t_.now.steady;
      t_.world.nodes.PutWritten(node);
      if (watch_shows) t_.world.nodes.PutShown(std::move(node), t_.now.steady);
      lines.push_back(std::visit(ActionText(), action));
      return true;
    }
    if (const auto* create = std::get_if<CreateBlock>(&action)) {
      ipam::Block block = create->block;
      block.uid = "uid-of-" + block.name;
      block.resource_version = "1";
      block.pool_uid = "uid-of-" + block.pool;
      t_.world.PutBlock(SeenAs(std::move(block)));
      lines.push_back(std::visit(ActionText(), action));
      return true;
    }
    if (const auto* change = std::get_if<ChangeBlock>(&action)) {
      t_.world.PutBlock(SeenAs(change->after));
      return true;
    }
    if (const auto* deletion = std::get_if<DeleteBlock>(&action)) {
      lines.push_back(std::visit(ActionText(), action));
      t_.world.RemoveBlock(deletion->block->name);
      return true;
    }
    return false;
  }

  TestWorld t_;
  std::vector<SeenPod> unseen_;
  std::optional<SteadyTime> wake_steady_;
  std::optional<std::int64_t> wake_unix_ms_;
};

}  // namespace berth::reconciler
