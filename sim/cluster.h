// SPDX-License-Identifier: Apache-2.0
// Cluster: the Nodes, Leases, namespaces and pods that berth-controller reads, what kubelets report about them, and
// Kubernetes' garbage collector.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/testing/model_api.h"
#include "sim/odd_pods.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

inline constexpr const char* kNamespace = "ns";
// terminationGracePeriodSeconds of most pods: the longest time that the end of a pod takes.
inline constexpr std::chrono::seconds kGrace{30};
// The UIDs of static pods begin with this text. A real kubelet takes the hash of the pod's configuration.
inline constexpr const char* kStaticHash = "f00dcafe";

struct Pod {
  std::string name;
  std::string uid;  // the UID that the kubelet knows
  bool is_static = false;
  std::int64_t units = 0;  // requested units of the extended resource; 0: none, and no scheduler places the pod
  std::chrono::seconds grace = kGrace;
  bool has_long_grace = false;  // the API server shows a grace period of 68 years or more
};

class Cluster {
 public:
  // Both must outlive this.
  Cluster(k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  // Adds a Ready Node, whose Lease is renewed every ten seconds.
  void AddNode(const std::string& name);
  // Cuts the node's kubelet off from the API servers for `time`. False: the kubelet is cut off already, was connected
  // again less than 2 s ago, or the Node is out of service.
  [[nodiscard]] bool CutOff(const std::string& node, Nanos time);
  // For plants (plants.h): kubelets that are cut off still renew their Leases.
  void RenewWhenCutOff(bool renews) { renews_when_cut_off_ = renews; }
  // Waits until the node's kubelet is connected.
  void AwaitConnection(const std::string& node) const;
  [[nodiscard]] bool AreAllConnected() const { return cut_off_.empty(); }
  [[nodiscard]] bool IsConnected(const std::string& node) const { return !cut_off_.contains(node); }

  // A person sets a label of the Node, or of the namespace of all pods.
  void LabelNode(const std::string& node, const std::string& label, const std::string& value);
  void LabelNamespace(const std::string& label, const std::string& value);
  // The labels; empty if the Node or the namespace does not exist.
  [[nodiscard]] nlohmann::json LabelsOfNode(const std::string& node) const;
  [[nodiscard]] nlohmann::json LabelsOfNamespace() const;

  // Deletes the Node, its Lease and its pods, and cuts its kubelet off. False: the kubelet is cut off already, or was
  // connected again less than 2 s ago.
  [[nodiscard]] bool RemoveNode(const std::string& name);
  void ReturnNode(const std::string& name);
  // Deletes all pods of the node. Its Node stays, and stands for another machine from now on. False: as RemoveNode.
  [[nodiscard]] bool RemovePods(const std::string& node);
  // Deletes pods that were bound to the node meanwhile.
  void RemoveLatePods(const std::string& node) { RemovePodsOf(node); }
  [[nodiscard]] bool IsGone(const std::string& node) const { return gone_.contains(node); }

  // The machine goes down, so its kubelet is cut off. False: as RemoveNode.
  [[nodiscard]] bool GoDown(const std::string& node);
  // Kubernetes notices that the node does not answer. A person taints the Node as out of service, because the machine
  // is off. Kubernetes deletes the Node's pods by force, but not the mirror pods.
  void TakeOutOfService(const std::string& node);
  // The machine is up: its kubelet can start pods, and reports that the Node is not Ready yet.
  void ComeUp(const std::string& node);
  void BeReady(const std::string& node);
  // The person removes the taint.
  void TakeIntoService(const std::string& node);
  [[nodiscard]] bool IsOutOfService(const std::string& node) const { return out_of_service_.contains(node); }
  [[nodiscard]] bool AreAllInService() const { return out_of_service_.empty(); }

  // Creates a pod that is bound to the node. If a pod `name` exists, the new pod gets another name.
  [[nodiscard]] Pod StartPod(const std::string& node, const std::string& name);
  // Creates a pod that is bound to a node without a kubelet. The pod gets no address, and stays.
  void CreateGhost(const std::string& node);
  // Creates a pod that requests units of the extended resource. The scheduler binds the pod, and only to `node`, unless
  // `node` is empty.
  [[nodiscard]] Pod CreatePod(const std::string& name, std::int64_t units, const std::string& node);
  // The pod exists, and is bound to no node.
  [[nodiscard]] bool IsPending(const Pod& pod) const;
  // Deletes the pod, unless it is bound.
  void RemovePending(const Pod& pod);
  // A person deletes the pod, which is Terminating until RemovePod.
  void MarkTerminating(const Pod& pod);
  // The pod's containers have ended (phase Succeeded), or the kubelet has rejected the pod (Failed). The pod stays
  // until RemoveEnded.
  void MarkEnded(const Pod& pod, const char* phase);
  // Like MarkEnded, but the sandbox has not ended yet.
  void MarkPhase(const Pod& pod, const char* phase);
  void RemoveEnded();
  // A person removes the Node's address count.
  void RemoveNumber(const std::string& node);
  // Starts a static pod. The API server shows it as a mirror pod, which has another UID each time.
  [[nodiscard]] Pod StartStaticPod(const std::string& node, const std::string& name);
  // The kubelet reports the pod's addresses as soon as it is connected. Only the newest report counts. Without
  // addresses: the pod's sandbox has ended.
  void TellAddresses(const Pod& pod, const std::string& node, const std::set<std::string>& addresses);
  // Deletes the pod. The kubelet makes no mirror pod of this static pod again.
  void RemovePod(const Pod& pod);
  // The kubelet has ended the pod: it reports that the sandbox has ended, and deletes the pod.
  void EndPod(const Pod& pod);
  // From now on finalizers of other programs keep some pods after their end: for up to a minute, or for up to 20.
  void KeepFinalizers() { has_finalizers_ = true; }
  // From now on some new pods that no scheduler places have odd fields.
  void MakeOddPods(std::uint64_t seed) { odd_pods_.Begin(seed); }
  // If no DEL of the pod comes, the controller waits for years (OddPods::HasLongGrace).
  [[nodiscard]] bool EndsAfterYears(const std::string& uid) const { return odd_pods_.HasLongGrace(uid); }
  // A person deletes the mirror pod of a random static pod, and the kubelet makes it again after `time`.
  void LoseMirror(Nanos time);

  // Restores the backup. Versions go on far above the old ones. Kubelets report the pods that still exist again, and
  // delete the pods that exist only because of the backup. Requires: all nodes are connected.
  void Restore(const k8sclient::testing::ModelApi::Backup& backup);
  [[nodiscard]] bool Knows(const Pod& pod) const;
  // All kubelets have reported their pods again after the last restore, if there was one.
  [[nodiscard]] bool HaveToldAgain() const { return telling_ == 0; }

  // Deletes the IPAllocations of pods that are gone. Never returns.
  void CollectGarbage();

 private:
  // The stored pod; null: the pod is gone or bound.
  [[nodiscard]] nlohmann::json Pending(const Pod& pod) const;
  [[nodiscard]] nlohmann::json LabelsOf(const std::string& collection, const std::string& name) const;
  void RemovePodsOf(const std::string& node);
  // Somebody deletes the pod next, and a finalizer may keep it.
  void MayPutFinalizer(const Pod& pod);
  void RemoveFinalizer(const Pod& pod);
  void Renew(const std::string& node);
  void SetReady(const std::string& node, const char* status);
  // The node's kubelet is connected from now on.
  void Hear(const std::string& node);
  void Connect(const std::string& node);
  void PutMirror(const std::string& name);
  void PutStatus(const Pod& pod, const std::set<std::string>& addresses);
  // The kubelet reports a restored pod again, or deletes it. `known`: the pod just before the restore; null: the pod
  // did not exist.
  void TellAgain(const nlohmann::json& pod, const nlohmann::json& known, bool is_newest);

  struct StaticPod {
    Pod pod;
    std::string node;
    std::set<std::string> addresses;
    bool is_lost = false;  // its mirror pod is deleted
  };

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  std::set<std::string> nodes_;
  std::map<std::string, StaticPod> static_pods_;  // by name
  std::map<std::string, std::uint64_t> news_;     // number of a kubelet's reports, by the pod's UID
  std::set<std::string> cut_off_;
  std::vector<Pod> ended_;                  // pods that are Succeeded or Failed
  std::map<std::string, Nanos> connected_;  // when the node was connected again, by node; 0: it was never cut off
  std::set<std::string> gone_;
  std::set<std::string> out_of_service_;
  std::uint64_t started_ = 0;
  bool has_finalizers_ = false;
  OddPods odd_pods_;
  std::uint64_t made_nodes_ = 0;
  int telling_ = 0;  // restored pods that their kubelets have not reported yet
  bool renews_when_cut_off_ = false;
};

}  // namespace berth::sim
