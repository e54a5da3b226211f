// SPDX-License-Identifier: Apache-2.0
// KubeScheduler: Kubernetes' scheduler, which places pods by the Nodes' address counts.
//
// The scheduler decides by what its own watches of Nodes and pods have shown, which lag. From the decision on, a pod
// counts on its node (the pod is assumed). The binding comes later and may fail. A pod that fits nowhere gets the
// condition Unschedulable. It waits until an address count rises, a Node becomes Ready or a pod goes, and then for its
// backoff.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/testing/model_api.h"
#include "sim/counted.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

class KubeScheduler {
 public:
  // All must outlive this.
  KubeScheduler(k8sclient::testing::ModelApi& store, Counted& counted, Story& story)
      : store_(store), counted_(counted), story_(story) {}

  void Start();
  // The API server stored an object. `before` is null if the object is new, `after` is null if the object is gone.
  void Stored(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after);
  // The watches show each change at most `most` later; most changes come much sooner.
  void Lag(Nanos most) { lag_ = most; }
  // While paused, the scheduler places no pod.
  void Pause(bool is_paused);
  // For plants (plants.h): the watch of Nodes shows each change exactly `time` later.
  void LagOfNodes(Nanos time) { lag_of_nodes_ = time; }

 private:
  // What the scheduler knows of an object.
  struct SeenNode {
    bool is_ready = false;
    std::int64_t number = 0;
    std::uint64_t version = 0;
  };
  struct SeenPod {
    std::string uid;
    std::string name;
    std::string node;         // empty: not bound
    std::string wanted_node;  // the node of its nodeSelector; empty: any node
    std::int64_t units = 0;
    bool is_over = false;  // the pod has ended or is gone
  };
  // A pod that waits for a node.
  struct Waiting {
    SeenPod pod;
    int attempts = 0;
    bool is_unschedulable = false;  // no attempt before a change that could help
    Nanos failed{0};
    Nanos ready{0};  // time of the next attempt
  };
  template <typename Seen>
  struct Late {
    Nanos due;
    std::string key;
    Seen seen;
  };

  void Run();
  // Takes over what the watches have shown by now.
  void Advance();
  void NodeSeen(const std::string& name, const std::optional<SeenNode>& node);
  void PodSeen(const SeenPod& pod);
  // Tries to place one pod. False: no pod's time for an attempt has come.
  bool ScheduleOne();
  void Place(const Waiting& waiting, const std::string& node);
  void Bind(const Waiting& waiting, const std::string& node);
  // The binding failed: the pod waits again.
  void Forget(const Waiting& waiting);
  void CallUnschedulable(Waiting& waiting, const std::string& why);
  // Something changed that could help waiting pods.
  void WakeAll();
  [[nodiscard]] Nanos NextTime() const;
  [[nodiscard]] std::int64_t LeftOn(const std::string& node, std::int64_t number) const;
  [[nodiscard]] Nanos Due(Nanos last, Nanos exactly) const;

  k8sclient::testing::ModelApi& store_;
  Counted& counted_;
  Story& story_;
  ProcessPointer process_ = std::make_shared<Process>("kube-scheduler");
  bool is_paused_ = false;
  Nanos lag_{0};
  Nanos lag_of_nodes_{0};
  std::deque<Late<std::optional<SeenNode>>> late_nodes_;
  std::deque<Late<SeenPod>> late_pods_;
  std::map<std::string, SeenNode> nodes_;
  std::map<std::string, SeenPod> assigned_;  // by UID
  std::map<std::string, SeenPod> assumed_;   // by UID; `node` is the assumed node
  std::map<std::string, Waiting> waiting_;   // by UID: the oldest first
};

}  // namespace berth::sim
