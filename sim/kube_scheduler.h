// SPDX-License-Identifier: Apache-2.0
// KubeScheduler: Kubernetes' scheduler, as far as it counts what Nodes show.
//
// It decides on what its own watches of Nodes and pods have told it, which lag. A pod counts on its node from the
// decision on (it is assumed); its binding comes later, and may fail. A pod that fits nowhere gets the condition
// Unschedulable and waits until a Node shows more or a pod goes, and then for its backoff.
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
  // The API server stored an object; null: it was not there before, or is gone.
  void Stored(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after);
  // Its watches tell of each change so late at most; most come much sooner.
  void Lag(Nanos most) { lag_ = most; }
  // Places no pod meanwhile.
  void Pause(bool is_paused);
  // What is planted (plants.h): the watch of Nodes tells of each change exactly so late.
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
    std::string wanted_node;  // by its nodeSelector; empty: any
    std::int64_t units = 0;
    bool is_over = false;  // ended, or gone
  };
  // A pod that waits for a node.
  struct Waiting {
    SeenPod pod;
    int attempts = 0;
    bool is_unschedulable = false;  // until something changes that could help
    Nanos failed{0};
    Nanos ready{0};  // not before
  };
  template <typename Seen>
  struct Late {
    Nanos due;
    std::string key;
    Seen seen;
  };

  void Run();
  // Takes in what the watches have told by now.
  void Advance();
  void NodeSeen(const std::string& name, const std::optional<SeenNode>& node);
  void PodSeen(const SeenPod& pod);
  // False: nobody waits whose time has come.
  bool ScheduleOne();
  void Place(const Waiting& waiting, const std::string& node);
  void Bind(const Waiting& waiting, const std::string& node);
  // The binding failed.
  void Forget(const Waiting& waiting);
  void CallUnschedulable(Waiting& waiting, const std::string& why);
  // Something changed that could help.
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
  std::map<std::string, SeenPod> assumed_;   // by UID; `node` is where
  std::map<std::string, Waiting> waiting_;   // by UID: the oldest first
};

}  // namespace berth::sim
