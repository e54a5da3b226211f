// SPDX-License-Identifier: Apache-2.0
// The scheduler's cache, its queue and its bindings.
#include "sim/kube_scheduler.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "reconciler/read_holders.h"
#include "sim/cluster.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr Nanos kBackoffMin = 1s;
constexpr Nanos kBackoffMax = 10s;
// Longest time of a binding. Together with the longest lag of its watches (1.9 s), the scheduler places a pod by a
// state that is at most 2.8 s old.
constexpr std::uint64_t kBindingMs = 900;

std::string PodAt(const std::string& name, const char* subresource) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}/{}", kNamespace, name, subresource);
}

}  // namespace

void KubeScheduler::Start() {
  Spawn(process_, [this] { Run(); });
}

void KubeScheduler::Pause(bool is_paused) {
  is_paused_ = is_paused;
  WakeAllAt(this);
}

Nanos KubeScheduler::Due(Nanos last, Nanos exactly) const {
  constexpr std::uint64_t kMostlyPart = 40;
  if (exactly > Nanos(0)) return std::max(last, Now() + exactly);
  const auto most = static_cast<std::uint64_t>(std::max<Nanos::rep>(lag_.count(), 1));
  return std::max(last, Now() + Nanos(Below(6) == 0 ? Below(most) : Below(most / kMostlyPart + 1)));
}

void KubeScheduler::Stored(const std::string& collection, const json& before, const json& after) {
  const json& object = after.is_null() ? before : after;
  if (collection == reconciler::kNodesPath) {
    std::optional<SeenNode> seen;
    if (!after.is_null()) {
      seen = {.is_ready = IsReadyNode(after),
              .number = NumberOf(after).value_or(0),
              .version = std::stoull(after["metadata"]["resourceVersion"].get<std::string>())};
    }
    const Nanos last = late_nodes_.empty() ? Nanos(0) : late_nodes_.back().due;
    late_nodes_.push_back({.due = Due(last, lag_of_nodes_), .key = object["metadata"]["name"], .seen = seen});
  } else if (collection == reconciler::kPodsPath && UnitsOf(object) > 0) {
    const SeenPod pod{
        .uid = object["metadata"]["uid"],
        .name = object["metadata"]["name"],
        .node = NodeOf(object),
        .wanted_node = object.value("/spec/nodeSelector/kubernetes.io~1hostname"_json_pointer, std::string()),
        .units = UnitsOf(object),
        .is_over = after.is_null() || HasEnded(after) ||
                   (NodeOf(after).empty() && after["metadata"].contains("deletionTimestamp"))};
    const Nanos last = late_pods_.empty() ? Nanos(0) : late_pods_.back().due;
    late_pods_.push_back({.due = Due(last, Nanos(0)), .key = pod.uid, .seen = pod});
  } else {
    return;
  }
  WakeAllAt(this);
}

void KubeScheduler::Run() {
  while (true) {
    Advance();
    while (ScheduleOne()) {
      std::this_thread::sleep_for(std::chrono::microseconds(500 + Below(2'000)));
      Advance();
    }
    const Nanos next = NextTime();
    if (next > Now()) static_cast<void>(AwaitAt(this, next));
  }
}

Nanos KubeScheduler::NextTime() const {
  Nanos next = Nanos::max();
  if (!late_nodes_.empty()) next = std::min(next, late_nodes_.front().due);
  if (!late_pods_.empty()) next = std::min(next, late_pods_.front().due);
  for (const auto& [uid, waiting] : waiting_) {
    if (!is_paused_ && !waiting.is_unschedulable) next = std::min(next, waiting.ready);
  }
  return next;
}

void KubeScheduler::Advance() {
  while (!late_nodes_.empty() && late_nodes_.front().due <= Now()) {
    const auto late = std::move(late_nodes_.front());
    late_nodes_.pop_front();
    NodeSeen(late.key, late.seen);
  }
  while (!late_pods_.empty() && late_pods_.front().due <= Now()) {
    const auto late = std::move(late_pods_.front());
    late_pods_.pop_front();
    PodSeen(late.seen);
  }
}

void KubeScheduler::NodeSeen(const std::string& name, const std::optional<SeenNode>& node) {
  if (!node) {
    nodes_.erase(name);
    return;
  }
  const auto known = nodes_.find(name);
  const bool helps =
      known == nodes_.end() || node->number > known->second.number || (node->is_ready && !known->second.is_ready);
  nodes_[name] = *node;
  if (helps) WakeAll();
}

void KubeScheduler::PodSeen(const SeenPod& pod) {
  if (pod.is_over) {
    const bool was_assigned = assigned_.erase(pod.uid) > 0;
    const bool was_assumed = assumed_.erase(pod.uid) > 0;
    waiting_.erase(pod.uid);
    if (was_assigned || was_assumed) WakeAll();
  } else if (!pod.node.empty()) {
    assumed_.erase(pod.uid);
    waiting_.erase(pod.uid);
    assigned_[pod.uid] = pod;
  } else if (!assumed_.contains(pod.uid)) {
    waiting_.try_emplace(pod.uid, Waiting{.pod = pod});
  }
}

void KubeScheduler::WakeAll() {
  for (auto& [uid, waiting] : waiting_) {
    if (!waiting.is_unschedulable) continue;
    waiting.is_unschedulable = false;
    Nanos backoff = kBackoffMin;
    for (int i = 1; i < waiting.attempts && backoff < kBackoffMax; ++i) backoff *= 2;
    waiting.ready = waiting.failed + std::min(backoff, kBackoffMax);
  }
}

std::int64_t KubeScheduler::LeftOn(const std::string& node, std::int64_t number) const {
  for (const auto* const pods : {&assigned_, &assumed_}) {
    for (const auto& [uid, pod] : *pods) number -= pod.node == node ? pod.units : 0;
  }
  return number;
}

bool KubeScheduler::ScheduleOne() {
  if (is_paused_) return false;
  const auto due = std::ranges::find_if(
      waiting_, [](const auto& one) { return !one.second.is_unschedulable && one.second.ready <= Now(); });
  if (due == waiting_.end()) return false;
  Waiting& waiting = due->second;
  std::vector<std::string> fitting;
  std::size_t insufficient = 0;
  std::size_t others = 0;
  std::size_t not_ready = 0;
  for (const auto& [name, node] : nodes_) {
    if (!node.is_ready) {
      ++not_ready;
    } else if (!waiting.pod.wanted_node.empty() && waiting.pod.wanted_node != name) {
      ++others;
    } else if (LeftOn(name, node.number) < waiting.pod.units) {
      ++insufficient;
    } else {
      fitting.push_back(name);
    }
  }
  ++waiting.attempts;
  if (!fitting.empty()) {
    Place(Waiting(waiting), fitting[Below(fitting.size())]);
    return true;
  }
  std::string why = fmt::format("0/{} nodes are available:", nodes_.size());
  const char* separator = " ";
  const auto add = [&](std::size_t count, const std::string& what) {
    if (count == 0) return;
    why += fmt::format("{}{} {}", separator, count, what);
    separator = ", ";
  };
  add(insufficient, std::string("Insufficient ") + kCountedResource);
  add(others, "node(s) didn't match Pod's node affinity/selector");
  add(not_ready, "node(s) had untolerated taint {node.kubernetes.io/unreachable: }");
  CallUnschedulable(waiting, why + ".");
  return true;
}

void KubeScheduler::CallUnschedulable(Waiting& waiting, const std::string& why) {
  waiting.is_unschedulable = true;
  waiting.failed = Now();
  const json condition = {{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}, {"message", why}};
  story_.Tell(waiting.pod.name + " is unschedulable: " + why);
  static_cast<void>(store_.Call({.method = k8sclient::Method::kPatch,
                                 .path = PodAt(waiting.pod.name, "status"),
                                 .body = json{{"status", {{"conditions", {condition}}}}}.dump()},
                                {}));
}

void KubeScheduler::Place(const Waiting& waiting, const std::string& node) {
  waiting_.erase(waiting.pod.uid);
  SeenPod assumed = waiting.pod;
  assumed.node = node;
  assumed_[assumed.uid] = assumed;
  counted_.Placed(assumed.uid, nodes_.at(node).version);
  story_.Tell(fmt::format("{} is to run on {}", assumed.name, node));
  Spawn(process_, [this, waiting, node] { Bind(waiting, node); });
}

void KubeScheduler::Bind(const Waiting& waiting, const std::string& node) {
  std::this_thread::sleep_for(std::chrono::milliseconds(Below(6) == 0 ? Below(kBindingMs) : Below(20)));
  constexpr std::uint64_t kLostOneIn = 16;
  if (Below(kLostOneIn) == 0) {
    story_.Tell("the binding of " + waiting.pod.name + " is lost");
    return Forget(waiting);
  }
  const json binding = {{"metadata", {{"name", waiting.pod.name}, {"uid", waiting.pod.uid}}},
                        {"target", {{"kind", "Node"}, {"name", node}}}};
  const auto answer = store_.Call(
      {.method = k8sclient::Method::kPost, .path = PodAt(waiting.pod.name, "binding"), .body = binding.dump()}, {});
  if (!answer || !answer->ok()) Forget(waiting);
}

void KubeScheduler::Forget(const Waiting& waiting) {
  // If the pod is not assumed any more, the watch has shown meanwhile that it is gone or bound.
  if (assumed_.erase(waiting.pod.uid) == 0) return;
  Waiting again = waiting;
  again.is_unschedulable = true;
  again.failed = Now();
  waiting_[again.pod.uid] = again;
  WakeAll();
  WakeAllAt(this);
}

}  // namespace berth::sim
