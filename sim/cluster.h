// SPDX-License-Identifier: Apache-2.0
// Cluster: what Kubernetes itself keeps of nodes and pods, as far as berth-controller looks at it.
#pragma once

#include <set>
#include <string>

#include "k8sclient/testing/model_api.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

inline constexpr const char* kNamespace = "ns";
// Of every pod; so long its end may take.
inline constexpr std::chrono::seconds kGrace{30};

struct Pod {
  std::string name;
  std::string uid;
};

class Cluster {
 public:
  // Both must outlive this.
  Cluster(k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  // A Node that is Ready, whose Lease is renewed every ten seconds.
  void AddNode(const std::string& name);
  // The node's kubelet hears and says nothing for so long.
  void CutOff(const std::string& node, Nanos time);
  // What is planted (plants.h).
  void RenewWhenCutOff(bool renews) { renews_when_cut_off_ = renews; }
  // Waits until it hears.
  void AwaitConnection(const std::string& node) const;

  // By that name, or, if there is such a pod, by another.
  [[nodiscard]] Pod StartPod(const std::string& node, const std::string& name);
  void TellAddress(const Pod& pod, const std::string& address);
  void RemovePod(const Pod& pod);

 private:
  void Renew(const std::string& node);
  void SetReady(const std::string& node, bool is_ready);

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  std::set<std::string> pods_;
  std::set<std::string> cut_off_;
  std::uint64_t started_ = 0;
  bool renews_when_cut_off_ = false;
};

}  // namespace berth::sim
