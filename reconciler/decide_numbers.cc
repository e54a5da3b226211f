// SPDX-License-Identifier: Apache-2.0
// Compares the address counts that Nodes show with those that they should show.
#include "reconciler/decide_numbers.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace berth::reconciler {

namespace {

constexpr std::size_t kSuspectPart = 10;  // a tenth

std::string Text(const std::string& resource) { return "ipam.berth.dev/" + resource; }

std::optional<std::int64_t> ShownBy(const SeenNode& node, const std::string& resource) {
  const auto number = node.numbers.find(resource);
  if (number == node.numbers.end()) return std::nullopt;
  return number->second.Highest();
}

// Units left for further pods; 0 if the Node shows no count.
std::int64_t LeftOf(std::optional<std::int64_t> number, const Tally& tally) {
  return number ? *number - tally.requested : 0;
}

}  // namespace

bool AreManyNotReady(const World& world) {
  const auto& nodes = world.nodes.all();
  const auto count = std::ranges::count_if(nodes, [](const auto& item) { return !item.second.is_ready; });
  return static_cast<std::size_t>(count) * kSuspectPart > nodes.size();
}

std::optional<std::int64_t> NumberDecider::Wanted(const World& world, const SeenNode& node, const Tally& tally) {
  if (!node.is_ready && !AreManyNotReady(world)) return std::nullopt;
  return tally.Number();
}

// The planned write of one Node.
struct NumberDecider::Plan {
  const SeenNode* node;
  SteadyTime written = SteadyTime::min();  // when the controller last wrote this Node's counts
  std::map<std::string, std::optional<std::int64_t>> numbers = {};
  std::string news = {};
  bool is_bad_news = false;
  bool is_waited_for = false;  // pods wait for this write
  bool is_calm = true;         // no pod waits, and kLeftMin units are left before and after, for every resource
  bool is_raise = false;
};

class NumberDecider::Pass {
 public:
  Pass(NumberDecider& decider, const NumberScope& scope, const Now& now, Decision& decision)
      : decider_(decider),
        scope_(scope),
        now_(now),
        decision_(decision),
        many_not_ready_(AreManyNotReady(scope.world)) {
    for (const PodKey& key : scope.counts.waiting()) {
      for (const UnitRequest& need : scope.counts.NeedsOf(*scope.world.pods.Find(key)))
        waited_for_.insert(need.resource);
    }
  }

  void Run() {
    std::vector<Plan> plans;
    for (const auto& [name, node] : scope_.world.nodes.all()) {
      Plan plan{.node = &node};
      const auto written = scope_.state.numbers_written.find(name);
      if (written != scope_.state.numbers_written.end()) plan.written = written->second;
      std::set<std::string> resources;
      for (const auto& [resource, number] : node.numbers) resources.insert(resource);
      for (const auto& [resource, tally] : scope_.counts.Of(name)) resources.insert(resource);
      for (const std::string& resource : resources) DecideOne(node, resource, plan);
      if (!plan.numbers.empty()) plans.push_back(std::move(plan));
    }
    for (const auto& [name, listed] : scope_.state.pods_listed) decider_.last_lists_[name] = listed.at;
    std::erase_if(decider_.last_lists_,
                  [this](const auto& item) { return !scope_.world.nodes.all().contains(item.first); });
    std::erase_if(decider_.lowering_, [this](const auto& item) { return !kept_.contains(item.first); });
    // Nodes for which pods wait come first. The other Nodes are sorted by the age of their last write, so that each
    // gets its turn even if more counts rise all the time than the controller may write. Among Nodes that this
    // controller has not written yet, raises come first.
    std::ranges::stable_sort(
        plans, {}, [](const Plan& plan) { return std::tuple(!plan.is_waited_for, plan.written, !plan.is_raise); });
    for (Plan& plan : plans) Emit(plan);
  }

  // Sorts Nodes without a count first, because the scheduler places no pod there. Sorts the other nodes by the age of
  // their last list, the oldest first, so that each node gets its turn.
  std::vector<ListPods> Lists() && {
    std::ranges::stable_sort(wants_list_, {}, [this](const std::pair<std::string, bool>& one) {
      const auto found = decider_.last_lists_.find(one.first);
      return std::pair(one.second, found == decider_.last_lists_.end() ? SteadyTime::min() : found->second);
    });
    if (wants_list_.size() > kListsMax) wants_list_.resize(kListsMax);
    std::vector<ListPods> lists;
    for (auto& [node, shows_count] : wants_list_) lists.push_back({.node = std::move(node)});
    return lists;
  }

 private:
  void DecideOne(const SeenNode& node, const std::string& resource, Plan& plan) {
    const NodeTally& of_node = scope_.counts.Of(node.name);
    const auto found = of_node.find(resource);
    const Tally tally = found == of_node.end() ? Tally() : found->second;
    const auto number = node.numbers.find(resource);
    const std::optional<std::int64_t> shown = ShownBy(node, resource);
    const bool is_one = number == node.numbers.end() || number->second.capacity == number->second.allocatable;
    if (!scope_.counts_pools || (!tally.is_counted && tally.held == 0 && tally.requested == 0)) {
      // No pool of the resource counts for this node. Without a count, the scheduler places no pod and the kubelet
      // rejects none.
      if (shown) Write(node, resource, std::nullopt, tally, plan);
      return;
    }
    const bool is_ready = node.is_ready || many_not_ready_;
    const std::optional<std::int64_t> wanted = is_ready ? tally.Number() : std::nullopt;
    if (!shown) {
      if (wanted) DecideReturn(node, resource, tally, plan);
      return;
    }
    if (wanted >= shown) {
      if (wanted > shown || !is_one) Write(node, resource, wanted, tally, plan);
      return;
    }
    DecideLower(node, resource, {.tally = tally, .wanted = wanted, .shown = *shown, .is_ready = is_ready}, plan);
  }

  struct Lower {
    const Tally& tally;
    std::optional<std::int64_t> wanted;
    std::int64_t shown;
    bool is_ready;
  };

  void DecideLower(const SeenNode& node, const std::string& resource, const Lower& lower, Plan& plan) {
    const Key key{node.name, resource};
    kept_.insert(key);
    Lowering& lowering =
        decider_.lowering_.try_emplace(key, Lowering{.since = now_.steady, .highest = lower.wanted}).first->second;
    lowering.highest = std::max(lowering.highest, lower.wanted);
    if (const SteadyTime due = lowering.since + kLowerAfter; now_.steady < due) return decision_.WakeAt(due);
    if (!lower.is_ready) {
      return Take(node, resource, lower.tally, "the node is not Ready", plan);
    }
    const auto* listed = Listed(node, lowering.since + kLowerAfter);
    if (listed == nullptr) return;
    const Tally fresh = TallyOf(node.name, resource, *listed);
    // The target is the larger of two counts: the highest count that was wanted since lowering.since, and the count by
    // the list.
    const std::optional<std::int64_t> target = std::max(lowering.highest, fresh.Number());
    if (target && *target >= lower.shown) {
      // There is nothing to lower: the Node already shows the target or less. Begin another five seconds, with the
      // count that is wanted now.
      lowering = {.since = now_.steady, .highest = lower.wanted};
      return decision_.WakeAt(now_.steady + kLowerAfter);
    }
    if (target && *target - fresh.requested >= kLeftMin) return Write(node, resource, target, fresh, plan);
    if (target) return Write(node, resource, std::nullopt, fresh, plan);
    Take(node,
         resource,
         fresh,
         "its pods request " + std::to_string(fresh.requested) + ", more than " + std::to_string(fresh.usable) +
             " free + " + std::to_string(fresh.held) + " held by them",
         plan);
  }

  // The Node shows no count, and should show one.
  void DecideReturn(const SeenNode& node, const std::string& resource, const Tally& tally, Plan& plan) {
    const auto since = scope_.world.nodes.AbsentSince(node.name, resource);
    // The watch has not shown yet that the controller removed the count.
    if (!since) return;
    if (const SteadyTime due = *since + kAbsentFor; now_.steady < due) return decision_.WakeAt(due);
    // If the Node has never shown a count, no count has made the scheduler place a pod there, so no list is needed. But
    // a new leader has not seen which counts the Node showed before, and may begin with an old state of the pods.
    Tally fresh = tally;
    if (scope_.world.nodes.WasShown(node.name, resource) || now_.steady < scope_.state.pods_are_old_until) {
      const auto* listed = Listed(node, *since + kAbsentFor);
      if (listed == nullptr) return;
      fresh = TallyOf(node.name, resource, *listed);
    }
    if (!fresh.Number()) return;
    if (plan.news.empty()) plan.news = "the Node shows " + Text(resource) + ": " + std::to_string(*fresh.Number());
    Write(node, resource, fresh.Number(), fresh, plan);
  }

  // Removes the count, and tells people why the Node shows none.
  void Take(const SeenNode& node, const std::string& resource, const Tally& tally, const std::string& why, Plan& plan) {
    plan.news = "the Node does not show " + Text(resource) +
                ", so pods that request this resource are not placed on this node: " + why;
    plan.is_bad_news = true;
    Write(node, resource, std::nullopt, tally, plan);
  }

  // The list of the node's pods, if it was requested after `after` and is still valid. nullptr: wait for the next list.
  const ControllerState::PodsListed* Listed(const SeenNode& node, SteadyTime after) {
    const auto found = scope_.state.pods_listed.find(node.name);
    if (found != scope_.state.pods_listed.end()) {
      const ControllerState::PodsListed& listed = found->second;
      if (listed.at >= after && now_.steady <= listed.at + kListValid) return &listed;
      const SteadyTime next = listed.at + kNextList;
      if (listed.at >= after && now_.steady < next) {
        decision_.WakeAt(next);
        return nullptr;
      }
    }
    const Backoff& backoff = scope_.state.backoff;
    if (!backoff.MayTry(NodeKey(node.name), now_.steady) || !backoff.MayTry(PodListKey(node.name), now_.steady))
      return nullptr;
    if (wants_list_.empty() || wants_list_.back().first != node.name) {
      wants_list_.emplace_back(node.name, !node.numbers.empty());
    }
    return nullptr;
  }

  [[nodiscard]] Tally TallyOf(const std::string& node, const std::string& resource,
                              const ControllerState::PodsListed& listed) const {
    const NodeTally all = scope_.counts.WithPods(scope_.world, node, listed.pods);
    const auto found = all.find(resource);
    return found == all.end() ? Tally() : found->second;
  }

  void Write(const SeenNode& node, const std::string& resource, std::optional<std::int64_t> number, const Tally& tally,
             Plan& plan) {
    const std::optional<std::int64_t> shown = ShownBy(node, resource);
    plan.numbers.emplace(resource, number);
    plan.is_raise = plan.is_raise || std::max(number, shown) == number;
    const bool waits = waited_for_.contains(resource);
    plan.is_waited_for = plan.is_waited_for || (waits && number && LeftOf(shown, tally) <= 0);
    plan.is_calm = plan.is_calm && !waits && LeftOf(shown, tally) >= kLeftMin && LeftOf(number, tally) >= kLeftMin;
  }

  void Emit(Plan& plan) {
    if (!scope_.state.backoff.MayTry(NodeKey(plan.node->name), now_.steady)) return;
    const SteadyTime due = plan.written + (plan.is_calm ? kCalmNodePause : kNodePause);
    if (now_.steady < due) return decision_.WakeAt(due);
    decision_.actions.push_back(ShowNumbers{.node = plan.node->name,
                                            .resource_version = plan.node->resource_version,
                                            .numbers = std::move(plan.numbers),
                                            .news = std::move(plan.news),
                                            .is_bad_news = plan.is_bad_news});
  }

  NumberDecider& decider_;
  const NumberScope& scope_;
  const Now& now_;
  Decision& decision_;
  const bool many_not_ready_;
  std::set<std::string> waited_for_;  // resources that waiting pods need
  std::set<Key> kept_;
  std::vector<std::pair<std::string, bool>> wants_list_;  // nodes, and whether each shows a count
};

std::vector<ListPods> NumberDecider::Decide(const NumberScope& scope, const Now& now, Decision& decision) {
  Pass pass(*this, scope, now, decision);
  pass.Run();
  return std::move(pass).Lists();
}

}  // namespace berth::reconciler
