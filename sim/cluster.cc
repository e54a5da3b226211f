// SPDX-License-Identifier: Apache-2.0
// Nodes, Leases and pods as objects of the store.
#include "sim/cluster.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "crds/names.h"
#include "reconciler/read_holders.h"
#include "sim/counted.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::chrono::seconds kRenewEvery{10};
constexpr std::chrono::seconds kConnectedMin{2};
// Without a report for this time, Kubernetes sets a Node's condition Ready to Unknown.
constexpr std::chrono::seconds kUnknownAfter{40};

// The status of a Node's condition Ready.
constexpr const char* kTrue = "True";
constexpr const char* kFalse = "False";
constexpr const char* kUnknown = "Unknown";

// The store's collection of Leases: the path has no namespace.
constexpr const char* kLeases = "/apis/coordination.k8s.io/v1/leases";

// The annotation of mirror pods.
constexpr const char* kMirrorOf = "kubernetes.io/config.mirror";

constexpr const char* kNamespaces = "/api/v1/namespaces";

// The garbage collector sends at most 40 requests per second. It looks again when it has deleted all that it has found.
constexpr std::chrono::milliseconds kCollectEach{25};
constexpr std::chrono::seconds kCollectEvery{5};

constexpr std::uint64_t kBump = 1'000'000'000;

const std::string& Pods() {
  static const std::string kPath(reconciler::kPodsPath);
  return kPath;
}

std::string PathOfPod(const std::string& name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", kNamespace, name);
}

std::chrono::seconds AnyGrace() {
  constexpr std::array kGraces{kGrace, kGrace, kGrace, std::chrono::seconds(1), std::chrono::seconds(90)};
  return kGraces.at(Below(kGraces.size()));
}

bool IsMirror(const json& pod) {
  const json annotations = pod["metadata"].value("annotations", json::object());
  return annotations.contains(kMirrorOf);
}

std::string NewUid(std::uint64_t number) { return fmt::format("{:08x}-0000-4000-8000-000000000000", number); }

}  // namespace

void Cluster::SetReady(const std::string& node, const char* status) {
  const json conditions = {{{"type", "Ready"}, {"status", status}}};
  // A kubelet keeps the resources that other programs have added to its Node.
  const bool is_there = store_.Change(
      std::string(reconciler::kNodesPath), node, [&](json& object) { object["status"]["conditions"] = conditions; });
  if (is_there) return;
  // The simulated kubelets and kube-scheduler limit no pods.
  const json resources = {{"cpu", "8"}, {"pods", "1000"}};
  store_.Put(std::string(reconciler::kNodesPath),
             {{"metadata",
               {{"name", node},
                {"uid", fmt::format("uid-of-{}-{}", node, ++made_nodes_)},
                {"labels", {{"kubernetes.io/hostname", node}}}}},
              {"status", {{"conditions", conditions}, {"capacity", resources}, {"allocatable", resources}}}});
}

void Cluster::AddNode(const std::string& name) {
  nodes_.insert(name);
  SetReady(name, kTrue);
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

bool Cluster::CutOff(const std::string& node, Nanos time) {
  // A person has promised that the machine of a Node with the taint is off.
  // A connection lasts for at least kConnectedMin, so a kubelet that can renew its Lease also sees what became of its
  // pods.
  if (out_of_service_.contains(node)) return false;
  if (Now() - connected_[node] < kConnectedMin || !cut_off_.insert(node).second) return false;
  story_.Tell(node + " is cut off");
  Spawn(std::make_shared<Process>(node + ".cut"), [this, node, time] {
    std::this_thread::sleep_for(std::min<Nanos>(time, kUnknownAfter));
    if (time > kUnknownAfter) {
      SetReady(node, kUnknown);
      std::this_thread::sleep_for(time - kUnknownAfter);
    }
    story_.Tell(node + " is connected again");
    Connect(node);
  });
  return true;
}

void Cluster::Hear(const std::string& node) {
  cut_off_.erase(node);
  connected_[node] = Now();
  for (const auto& [name, one] : static_pods_) {
    if (one.node == node) PutMirror(name);
  }
}

void Cluster::Connect(const std::string& node) {
  Hear(node);
  SetReady(node, kTrue);
}

void Cluster::LabelNode(const std::string& node, const std::string& label, const std::string& value) {
  story_.Tell(fmt::format("labels {} with {}={}", node, label, value));
  static_cast<void>(store_.Change(
      std::string(reconciler::kNodesPath), node, [&](json& object) { object["metadata"]["labels"][label] = value; }));
}

void Cluster::LabelNamespace(const std::string& label, const std::string& value) {
  story_.Tell(fmt::format("labels the namespace with {}={}", label, value));
  store_.Put(kNamespaces,
             {{"metadata", {{"name", kNamespace}, {"uid", "uid-of-namespace"}, {"labels", {{label, value}}}}}});
}

json Cluster::LabelsOf(const std::string& collection, const std::string& name) const {
  for (const json& object : store_.Objects(collection)) {
    if (object["metadata"]["name"] == name) return object["metadata"].value("labels", json::object());
  }
  return json::object();
}

json Cluster::LabelsOfNode(const std::string& node) const {
  return LabelsOf(std::string(reconciler::kNodesPath), node);
}

json Cluster::LabelsOfNamespace() const { return LabelsOf(kNamespaces, kNamespace); }

bool Cluster::RemoveNode(const std::string& name) {
  if (Now() - connected_[name] < kConnectedMin || !cut_off_.insert(name).second) return false;
  gone_.insert(name);
  story_.Tell(name + " is removed from the cluster");
  store_.Remove(std::string(reconciler::kNodesPath), name);
  store_.Remove(kLeases, name);
  RemovePodsOf(name);
  return true;
}

bool Cluster::RemovePods(const std::string& node) {
  if (Now() - connected_[node] < kConnectedMin || cut_off_.contains(node)) return false;
  RemovePodsOf(node);
  return true;
}

void Cluster::RemovePodsOf(const std::string& node) {
  for (const json& pod : store_.Objects(Pods())) {
    if (NodeOf(pod) == node) store_.Remove(Pods(), pod["metadata"]["name"]);
  }
}

bool Cluster::GoDown(const std::string& node) {
  return Now() - connected_[node] >= kConnectedMin && cut_off_.insert(node).second;
}

void Cluster::TakeOutOfService(const std::string& node) {
  std::this_thread::sleep_for(kUnknownAfter);
  SetReady(node, kUnknown);
  std::this_thread::sleep_for(std::chrono::milliseconds(Below(10'000)));
  story_.Tell(node + " is out of service");
  out_of_service_.insert(node);
  const json taint = {{"key", "node.kubernetes.io/out-of-service"}, {"value", "nodeshutdown"}, {"effect", "NoExecute"}};
  static_cast<void>(store_.Change(std::string(reconciler::kNodesPath), node, [&](json& object) {
    object["spec"]["taints"] = json::array({taint});
  }));
  for (const json& pod : store_.Objects(Pods())) {
    if (NodeOf(pod) != node || IsMirror(pod)) continue;
    const std::string name = pod["metadata"]["name"];
    static_cast<void>(store_.Change(Pods(), name, [](json& object) { object["status"]["phase"] = "Failed"; }));
    store_.Remove(Pods(), name);
  }
}

void Cluster::ComeUp(const std::string& node) {
  SetReady(node, kFalse);
  Hear(node);
}

void Cluster::BeReady(const std::string& node) { SetReady(node, kTrue); }

void Cluster::TakeIntoService(const std::string& node) {
  story_.Tell(node + " is in service again");
  out_of_service_.erase(node);
  static_cast<void>(store_.Change(std::string(reconciler::kNodesPath), node, [](json& object) {
    if (object.contains("spec")) object["spec"].erase("taints");
  }));
}

void Cluster::ReturnNode(const std::string& name) {
  story_.Tell(name + " is back");
  gone_.erase(name);
  Connect(name);
}

void Cluster::AwaitConnection(const std::string& node) const {
  while (cut_off_.contains(node)) std::this_thread::sleep_for(500ms);
}

Pod Cluster::StartPod(const std::string& node, const std::string& name) {
  Pod pod{.name = name, .uid = NewUid(++started_), .grace = AnyGrace()};
  if (store_.Change(Pods(), pod.name, [](json&) {})) pod.name += "-" + std::to_string(started_);
  json object = {{"metadata", {{"name", pod.name}, {"namespace", kNamespace}, {"uid", pod.uid}}},
                 {"spec", {{"nodeName", node}, {"terminationGracePeriodSeconds", pod.grace.count()}}},
                 {"status", {{"phase", "Pending"}}}};
  odd_pods_.Create(pod, object);
  store_.Put(Pods(), object);
  return pod;
}

void Cluster::CreateGhost(const std::string& node) {
  const std::string name = fmt::format("ghost{}", ++started_);
  story_.Tell(fmt::format("creates {} for {}, where no kubelet is", name, node));
  store_.Put(Pods(),
             {{"metadata", {{"name", name}, {"namespace", kNamespace}, {"uid", NewUid(started_)}}},
              {"spec", {{"nodeName", node}, {"terminationGracePeriodSeconds", kGrace.count()}}},
              {"status", {{"phase", "Pending"}}}});
}

Pod Cluster::CreatePod(const std::string& name, std::int64_t units, const std::string& node) {
  const Pod pod{.name = name, .uid = NewUid(++started_), .units = units, .grace = AnyGrace()};
  const json requests = {{kCountedResource, std::to_string(units)}};
  json spec = {{"terminationGracePeriodSeconds", pod.grace.count()},
               {"containers", {{{"name", "main"}, {"resources", {{"requests", requests}, {"limits", requests}}}}}}};
  if (!node.empty()) spec["nodeSelector"] = {{"kubernetes.io/hostname", node}};
  story_.Tell(fmt::format("creates {}, which requests {}{}", name, units, node.empty() ? "" : " on " + node));
  store_.Put(Pods(),
             {{"metadata", {{"name", pod.name}, {"namespace", kNamespace}, {"uid", pod.uid}}},
              {"spec", spec},
              {"status", {{"phase", "Pending"}}}});
  return pod;
}

json Cluster::Pending(const Pod& pod) const {
  const auto answer = store_.Call({.method = k8sclient::Method::kGet, .path = PathOfPod(pod.name), .body = {}}, {});
  if (!answer || !answer->ok()) return nullptr;
  json object = json::parse(answer->body);
  const bool is_pending = object["metadata"]["uid"] == pod.uid && NodeOf(object).empty() &&
                          !object["metadata"].contains("deletionTimestamp");
  return is_pending ? std::move(object) : nullptr;
}

bool Cluster::IsPending(const Pod& pod) const { return !Pending(pod).is_null(); }

void Cluster::RemovePending(const Pod& pod) {
  if (!IsPending(pod)) return;
  MayPutFinalizer(pod);
  const json object = Pending(pod);
  if (object.is_null()) return;
  const json same = {{"preconditions", {{"resourceVersion", object["metadata"]["resourceVersion"]}}}};
  const auto answer =
      store_.Call({.method = k8sclient::Method::kDelete, .path = PathOfPod(pod.name), .body = same.dump()}, {});
  // If the pod was bound meanwhile, or its condition has changed, the deletion fails and is tried again.
  if (answer && !answer->ok()) RemovePending(pod);
}

void Cluster::MarkTerminating(const Pod& pod) {
  static_cast<void>(store_.Change(Pods(), pod.name, [&](json& object) {
    if (object["metadata"]["uid"] != pod.uid) return;
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    object["metadata"]["deletionGracePeriodSeconds"] = pod.grace.count();
    odd_pods_.Delete(pod, object["metadata"]);
  }));
}

void Cluster::MarkEnded(const Pod& pod, const char* phase) {
  MarkPhase(pod, phase);
  PutStatus(pod, {});
}

void Cluster::MarkPhase(const Pod& pod, const char* phase) {
  story_.Tell(pod.name + " is " + phase);
  ended_.push_back(pod);
  static_cast<void>(store_.Change(Pods(), pod.name, [&](json& object) {
    if (object["metadata"]["uid"] == pod.uid) object["status"]["phase"] = phase;
  }));
}

void Cluster::RemoveEnded() {
  for (const Pod& pod : std::exchange(ended_, {})) RemovePod(pod);
}

void Cluster::RemoveNumber(const std::string& node) {
  story_.Tell("somebody takes the number of " + node + " off");
  static_cast<void>(store_.Change(std::string(reconciler::kNodesPath), node, [](json& object) {
    for (const char* const part : {"capacity", "allocatable"}) object["status"][part].erase(kCountedResource);
  }));
}

Pod Cluster::StartStaticPod(const std::string& node, const std::string& name) {
  const Pod pod{.name = fmt::format("{}-static-{}", name, ++started_),
                .uid = fmt::format("{}{:024x}", kStaticHash, started_),
                .is_static = true};
  static_pods_[pod.name] = {.pod = pod, .node = node, .addresses = {}};
  PutMirror(pod.name);
  return pod;
}

void Cluster::PutMirror(const std::string& name) {
  const auto found = static_pods_.find(name);
  if (found == static_pods_.end() || found->second.is_lost || !IsConnected(found->second.node)) return;
  const StaticPod& one = found->second;
  const bool is_there = store_.Change(Pods(), name, [](json&) {});
  if (is_there) return;
  store_.Put(Pods(),
             {{"metadata",
               {{"name", name},
                {"namespace", kNamespace},
                {"uid", NewUid(++started_)},
                {"annotations", {{kMirrorOf, one.pod.uid}}}}},
              {"spec", {{"nodeName", one.node}, {"terminationGracePeriodSeconds", kGrace.count()}}},
              {"status", {{"phase", "Pending"}}}});
  PutStatus(one.pod, one.addresses);
}

void Cluster::PutStatus(const Pod& pod, const std::set<std::string>& addresses) {
  story_.Tell(pod.name +
              (addresses.empty() ? " has no sandbox" : fmt::format(" has {}", fmt::join(addresses, " and "))));
  static_cast<void>(store_.Change(Pods(), pod.name, [&](json& object) {
    if (!pod.is_static && object["metadata"]["uid"] != pod.uid) return;
    json& status = object["status"];
    const char* const has_sandbox = addresses.empty() ? "False" : "True";
    status["conditions"] = json::array({{{"type", "PodReadyToStartContainers"}, {"status", has_sandbox}}});
    if (!addresses.empty()) {
      status["phase"] = "Running";
      status["podIPs"] = json::array();
      for (const std::string& address : addresses) status["podIPs"].push_back({{"ip", address}});
    }
    odd_pods_.Report(object["metadata"], status, !addresses.empty());
  }));
}

void Cluster::TellAddresses(const Pod& pod, const std::string& node, const std::set<std::string>& addresses) {
  if (pod.is_static && static_pods_.contains(pod.name)) static_pods_[pod.name].addresses = addresses;
  const std::uint64_t turn = ++news_[pod.uid];
  if (IsConnected(node)) return PutStatus(pod, addresses);
  Spawn(std::make_shared<Process>(node + ".status"), [this, pod, node, addresses, turn] {
    AwaitConnection(node);
    if (news_[pod.uid] == turn) PutStatus(pod, addresses);
  });
}

void Cluster::RemovePod(const Pod& pod) {
  static_pods_.erase(pod.name);
  json options = json::object();
  if (!pod.is_static) options["preconditions"]["uid"] = pod.uid;
  static_cast<void>(
      store_.Call({.method = k8sclient::Method::kDelete, .path = PathOfPod(pod.name), .body = options.dump()}, {}));
}

void Cluster::MayPutFinalizer(const Pod& pod) {
  constexpr std::uint64_t kFinalizerOneIn = 6;
  if (!has_finalizers_ || pod.is_static || Below(kFinalizerOneIn) != 0) return;
  constexpr std::uint64_t kLongOneIn = 4;
  const auto most_ms = static_cast<std::uint64_t>(Below(kLongOneIn) == 0 ? 1'200'000 : 60'000);
  if (!store_.Change(Pods(), pod.name, [](json& object) {
        object["metadata"]["finalizers"] = json::array({"example.com/keeps"});
      }))
    return;
  story_.Tell("a finalizer keeps " + pod.name);
  Spawn(std::make_shared<Process>("finalizer"), [this, pod, time = std::chrono::milliseconds(Below(most_ms))] {
    std::this_thread::sleep_for(time);
    RemoveFinalizer(pod);
  });
}

void Cluster::RemoveFinalizer(const Pod& pod) {
  const json patch = {{"metadata", {{"finalizers", nullptr}}}};
  static_cast<void>(
      store_.Call({.method = k8sclient::Method::kPatch, .path = PathOfPod(pod.name), .body = patch.dump()}, {}));
}

void Cluster::EndPod(const Pod& pod) {
  // A kubelet sets a terminal phase before it deletes a pod that it has ended.
  static_cast<void>(store_.Change(Pods(), pod.name, [&](json& object) {
    if (pod.is_static || object["metadata"]["uid"] == pod.uid) object["status"]["phase"] = "Succeeded";
  }));
  ++news_[pod.uid];  // a kubelet that is cut off does not send its earlier reports after the pod has ended
  PutStatus(pod, {});
  MayPutFinalizer(pod);
  RemovePod(pod);
}

void Cluster::LoseMirror(Nanos time) {
  if (static_pods_.empty()) return;
  const auto at = static_cast<std::ptrdiff_t>(Below(static_pods_.size()));
  const std::string name = std::next(static_pods_.begin(), at)->first;
  if (std::exchange(static_pods_[name].is_lost, true)) return;
  story_.Tell("the mirror of " + name + " is deleted");
  store_.Remove(Pods(), name);
  Spawn(std::make_shared<Process>("mirror"), [this, name, time] {
    std::this_thread::sleep_for(time);
    const auto found = static_pods_.find(name);
    if (found == static_pods_.end()) return;
    found->second.is_lost = false;
    PutMirror(name);
  });
}

bool Cluster::Knows(const Pod& pod) const {
  return pod.is_static || std::ranges::any_of(store_.Objects(Pods()),
                                              [&](const json& object) { return object["metadata"]["uid"] == pod.uid; });
}

void Cluster::Restore(const k8sclient::testing::ModelApi::Backup& backup) {
  std::map<std::string, json> before;
  for (const json& pod : store_.Objects(Pods())) before.emplace(pod["metadata"]["uid"], pod);
  store_.Restore(backup, kBump);
  for (const std::string& node : nodes_) SetReady(node, kTrue);
  for (const json& pod : store_.Objects(Pods())) {
    const std::string uid = pod["metadata"]["uid"];
    ++telling_;
    Spawn(std::make_shared<Process>("kubelet"), [this, pod, known = before[uid], turn = news_[uid]] {
      std::this_thread::sleep_for(std::chrono::milliseconds(Below(10'000)));
      TellAgain(pod, known, news_[pod["metadata"]["uid"]] == turn);
      --telling_;
    });
  }
  for (const auto& [name, one] : static_pods_) PutMirror(name);
}

void Cluster::TellAgain(const json& pod, const json& known, bool is_newest) {
  const std::string name = pod["metadata"]["name"];
  const bool is_over = IsMirror(pod) ? !static_pods_.contains(name) : known.is_null();
  if (is_over) {
    story_.Tell(name + " is in the store again, and ends");
    const json same = {{"preconditions", {{"uid", pod["metadata"]["uid"]}}}};
    static_cast<void>(
        store_.Call({.method = k8sclient::Method::kDelete, .path = PathOfPod(name), .body = same.dump()}, {}));
  } else if (is_newest && !known.is_null()) {
    static_cast<void>(store_.Change(Pods(), name, [&](json& object) {
      if (object["metadata"]["uid"] == pod["metadata"]["uid"]) object["status"] = known["status"];
    }));
  }
}

void Cluster::CollectGarbage() {
  const std::string allocations(crds::kAllocationsPath);
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kCollectEvery) + std::chrono::milliseconds(Below(5'000)));
    std::set<std::string> alive;
    for (const json& pod : store_.Objects(Pods())) alive.insert(pod["metadata"]["uid"]);
    for (const json& object : store_.Objects(allocations)) {
      const json& metadata = object["metadata"];
      if (!metadata.contains("ownerReferences")) continue;
      if (alive.contains(metadata["ownerReferences"][0]["uid"])) continue;
      std::this_thread::sleep_for(kCollectEach);
      const std::string name = metadata["name"];
      story_.Tell("collects " + name);
      static_cast<void>(store_.Call(
          {.method = k8sclient::Method::kDelete,
           .path = fmt::format(
               "{}/{}/ipallocations/{}", crds::kNamespacesPath, metadata["namespace"].get<std::string>(), name),
           .body = json{{"preconditions", {{"uid", metadata["uid"]}}}}.dump()},
          {}));
    }
  }
}

}  // namespace berth::sim
