// SPDX-License-Identifier: Apache-2.0
// Nodes, Leases and pods as objects of the store.
#include "sim/cluster.h"

#include <algorithm>
#include <memory>
#include <thread>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "reconciler/read_holders.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::chrono::seconds kRenewEvery{10};
// Kubernetes calls a node unknown that was not heard of for so long.
constexpr std::chrono::seconds kUnknownAfter{40};

// As ApiServer has it: without the namespace.
constexpr const char* kLeases = "/apis/coordination.k8s.io/v1/leases";

const std::string& Pods() {
  static const std::string kPath(reconciler::kPodsPath);
  return kPath;
}

}  // namespace

void Cluster::SetReady(const std::string& node, bool is_ready) {
  store_.Put(std::string(reconciler::kNodesPath),
             {{"metadata", {{"name", node}, {"uid", "uid-of-" + node}}},
              {"status", {{"conditions", {{{"type", "Ready"}, {"status", is_ready ? "True" : "Unknown"}}}}}}});
}

void Cluster::AddNode(const std::string& name) {
  SetReady(name, true);
  Spawn(std::make_shared<Process>(name + ".lease"), [this, name] { Renew(name); });
}

void Cluster::Renew(const std::string& node) {
  while (true) {
    if (!renews_when_cut_off_) AwaitConnection(node);
    store_.Put(kLeases,
               {{"metadata", {{"name", node}, {"namespace", "kube-node-lease"}, {"uid", "uid-of-lease-of-" + node}}},
                {"spec", {{"renewTime", std::to_string(Now().count())}}}});
    std::this_thread::sleep_for(kRenewEvery);
  }
}

void Cluster::CutOff(const std::string& node, Nanos time) {
  if (!cut_off_.insert(node).second) return;
  story_.Tell(node + " is cut off");
  Spawn(std::make_shared<Process>(node + ".cut"), [this, node, time] {
    std::this_thread::sleep_for(std::min<Nanos>(time, kUnknownAfter));
    if (time > kUnknownAfter) {
      SetReady(node, false);
      std::this_thread::sleep_for(time - kUnknownAfter);
    }
    story_.Tell(node + " is connected again");
    cut_off_.erase(node);
    SetReady(node, true);
  });
}

void Cluster::AwaitConnection(const std::string& node) const {
  while (cut_off_.contains(node)) std::this_thread::sleep_for(500ms);
}

Pod Cluster::StartPod(const std::string& node, const std::string& name) {
  Pod pod{.name = name, .uid = fmt::format("{:08x}-0000-4000-8000-000000000000", ++started_)};
  if (!pods_.insert(pod.name).second) {
    pod.name += "-" + std::to_string(started_);
    pods_.insert(pod.name);
  }
  store_.Put(Pods(),
             {{"metadata", {{"name", pod.name}, {"namespace", kNamespace}, {"uid", pod.uid}}},
              {"spec", {{"nodeName", node}, {"terminationGracePeriodSeconds", kGrace.count()}}},
              {"status", {{"phase", "Pending"}}}});
  return pod;
}

void Cluster::TellAddress(const Pod& pod, const std::string& address) {
  static_cast<void>(store_.Change(Pods(), pod.name, [&](json& object) {
    if (object["metadata"]["uid"] == pod.uid) {
      object["status"] = {{"phase", "Running"},
                          {"podIPs", json::array({{{"ip", address}}})},
                          {"conditions", json::array({{{"type", "PodReadyToStartContainers"}, {"status", "True"}}})}};
    }
  }));
}

void Cluster::RemovePod(const Pod& pod) {
  static_cast<void>(store_.Call({.method = k8sclient::Method::kDelete,
                                 .path = Pods() + "/" + pod.name,
                                 .body = json{{"preconditions", {{"uid", pod.uid}}}}.dump()},
                                {}));
  pods_.erase(pod.name);
}

}  // namespace berth::sim
