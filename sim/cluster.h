// SPDX-License-Identifier: Apache-2.0
// Cluster: what Kubernetes itself keeps of nodes and pods, as far as berth-controller looks at it, and its garbage
// collector.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/testing/model_api.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

inline constexpr const char* kNamespace = "ns";
// terminationGracePeriodSeconds of most pods; so long the end of a pod may take.
inline constexpr std::chrono::seconds kGrace{30};
// In the UID that the kubelet gives a static pod: the hash of its configuration.
inline constexpr const char* kStaticHash = "f00dcafe";

struct Pod {
  std::string name;
  std::string uid;  // as the kubelet tells it
  bool is_static = false;
  std::int64_t units = 0;  // of the counted resource, which it requests; 0: none, and no scheduler looks at it
  std::chrono::seconds grace = kGrace;
};

class Cluster {
 public:
  // Both must outlive this.
  Cluster(k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  // A Node that is Ready, whose Lease is renewed every ten seconds.
  void AddNode(const std::string& name);
  // The node's kubelet hears and says nothing for so long. False: it does not already, or heard again just now.
  [[nodiscard]] bool CutOff(const std::string& node, Nanos time);
  // What is planted (plants.h).
  void RenewWhenCutOff(bool renews) { renews_when_cut_off_ = renews; }
  // Waits until it hears.
  void AwaitConnection(const std::string& node) const;
  [[nodiscard]] bool AreAllConnected() const { return cut_off_.empty(); }
  [[nodiscard]] bool IsConnected(const std::string& node) const { return !cut_off_.contains(node); }

  // Somebody gives the Node, or the namespace of all pods, a label, instead of the one by that name.
  void LabelNode(const std::string& node, const std::string& label, const std::string& value);
  void LabelNamespace(const std::string& label, const std::string& value);
  // Without a Node or the namespace there are none.
  [[nodiscard]] nlohmann::json LabelsOfNode(const std::string& node) const;
  [[nodiscard]] nlohmann::json LabelsOfNamespace() const;

  // Its Node is deleted, as are all of its pods; its kubelet hears and says nothing. False: as CutOff.
  [[nodiscard]] bool RemoveNode(const std::string& name);
  void ReturnNode(const std::string& name);
  // All pods of the node are deleted, and its Node stays: another machine of that name is it from now on. False: as
  // CutOff.
  [[nodiscard]] bool RemovePods(const std::string& node);
  // Of pods that were bound to the node since.
  void RemoveLatePods(const std::string& node) { RemovePodsOf(node); }
  [[nodiscard]] bool IsGone(const std::string& node) const { return gone_.contains(node); }

  // The machine goes down: its kubelet hears and says nothing. False: as CutOff.
  [[nodiscard]] bool GoDown(const std::string& node);
  // Kubernetes has noticed that the node does not answer. A person says by a taint that the machine is off, and
  // Kubernetes deletes its pods by force, but the mirrors of static pods.
  void TakeOutOfService(const std::string& node);
  // The machine is up: its kubelet says that the Node is not Ready yet, and can start pods.
  void ComeUp(const std::string& node);
  void BeReady(const std::string& node);
  // The person takes the taint off.
  void TakeIntoService(const std::string& node);
  [[nodiscard]] bool IsOutOfService(const std::string& node) const { return out_of_service_.contains(node); }
  [[nodiscard]] bool AreAllInService() const { return out_of_service_.empty(); }

  // By that name, or, if there is such a pod, by another.
  [[nodiscard]] Pod StartPod(const std::string& node, const std::string& name);
  // A pod that somebody bound to a node that does not exist. It has no address, and stays.
  void CreateGhost(const std::string& node);
  // One that requests units of the counted resource, and that the scheduler binds, to that node alone unless it is
  // empty.
  [[nodiscard]] Pod CreatePod(const std::string& name, std::int64_t units, const std::string& node);
  // It is there, and bound to no node.
  [[nodiscard]] bool IsPending(const Pod& pod) const;
  // Deletes it, unless it is bound.
  void RemovePending(const Pod& pod);
  // Somebody deletes it, and its kubelet ends it: it is there until RemovePod.
  void MarkTerminating(const Pod& pod);
  // Its containers have ended (phase Succeeded), or the kubelet has rejected it (Failed). It stays until RemoveEnded.
  void MarkEnded(const Pod& pod, const char* phase);
  // The same, and its kubelet has not ended the sandbox yet.
  void MarkPhase(const Pod& pod, const char* phase);
  void RemoveEnded();
  // Somebody takes what the Node shows of the counted resource off by hand.
  void RemoveNumber(const std::string& node);
  // The API server hears of it by its mirror, which has another UID each time.
  [[nodiscard]] Pod StartStaticPod(const std::string& node, const std::string& name);
  // What its kubelet says of it, as soon as it is heard; the newest counts. Empty: its sandbox has ended.
  void TellAddresses(const Pod& pod, const std::string& node, const std::set<std::string>& addresses);
  // The container is through: for a static pod that its manifest is gone.
  void RemovePod(const Pod& pod);
  // Its kubelet has ended it: it says that the sandbox is gone, and removes the pod.
  void EndPod(const Pod& pod);
  // From now on finalizers of other programs keep some pods after their end: for up to a minute, or for up to 20.
  void KeepFinalizers() { has_finalizers_ = true; }
  // Somebody deletes the mirror of a static pod, and the kubelet makes it again so much later.
  void LoseMirror(Nanos time);

  // The store goes back to that backup, and its versions go on far above. Kubelets tell again what they know of pods
  // that still are in the store, and end those that are in there again. Requires: all nodes are connected.
  void Restore(const k8sclient::testing::ModelApi::Backup& backup);
  [[nodiscard]] bool Knows(const Pod& pod) const;
  // Since the last restore, if there was one, all kubelets have.
  [[nodiscard]] bool HaveToldAgain() const { return telling_ == 0; }

  // Deletes what belongs to pods that are gone, for ever.
  void CollectGarbage();

 private:
  // The pod as it is stored; null: it is gone, or bound.
  [[nodiscard]] nlohmann::json Pending(const Pod& pod) const;
  [[nodiscard]] nlohmann::json LabelsOf(const std::string& collection, const std::string& name) const;
  void RemovePodsOf(const std::string& node);
  // Somebody deletes the pod next, and a finalizer may keep it.
  void MayPutFinalizer(const Pod& pod);
  void RemoveFinalizer(const Pod& pod);
  void Renew(const std::string& node);
  void SetReady(const std::string& node, const char* status);
  // Its kubelet hears.
  void Hear(const std::string& node);
  void Connect(const std::string& node);
  void PutMirror(const std::string& name);
  void PutStatus(const Pod& pod, const std::set<std::string>& addresses);
  // A kubelet of a pod that is in the store once more. known: as it was just before the restore; null: it was not
  // there.
  void TellAgain(const nlohmann::json& pod, const nlohmann::json& known, bool is_newest);

  struct StaticPod {
    Pod pod;
    std::string node;
    std::set<std::string> addresses;
    bool is_lost = false;  // its mirror is
  };

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  std::set<std::string> nodes_;
  std::map<std::string, StaticPod> static_pods_;  // by name
  std::map<std::string, std::uint64_t> news_;     // by pod: how often its kubelet had something to say
  std::set<std::string> cut_off_;
  std::vector<Pod> ended_;                  // Succeeded or Failed
  std::map<std::string, Nanos> connected_;  // since when, by node; 0: it always was
  std::set<std::string> gone_;
  std::set<std::string> out_of_service_;
  std::uint64_t started_ = 0;
  bool has_finalizers_ = false;
  std::uint64_t made_nodes_ = 0;
  int telling_ = 0;  // pods of which a kubelet has still to tell again
  bool renews_when_cut_off_ = false;
};

}  // namespace berth::sim
