// SPDX-License-Identifier: Apache-2.0
// Counted: checks the address counts that Nodes show and that kubelets see, and computes the right ones.
//
// Counted looks only at stored objects and at the scheduler's placements, and shares no code with the controller's
// decision. It checks three rules: `low` (a Node shows less than its bound pods request), `rejected` (a kubelet rejects
// a pod) and `no-patch` (a patch of a Node changes nothing).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/testing/model_api.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

inline constexpr const char* kCountedResource = "ipam.berth.dev/ipv4";

// Units of the counted resource that the pod's containers request.
[[nodiscard]] std::int64_t UnitsOf(const nlohmann::json& pod);
// The node to which the pod is bound; empty: none.
[[nodiscard]] std::string NodeOf(const nlohmann::json& pod);
// True: the pod's phase is Succeeded or Failed.
[[nodiscard]] bool HasEnded(const nlohmann::json& pod);
// The address count in the Node's status.allocatable; nothing: the key is missing.
[[nodiscard]] std::optional<std::int64_t> NumberOf(const nlohmann::json& node);
[[nodiscard]] bool IsReadyNode(const nlohmann::json& node);

class Counted {
 public:
  // Both must outlive this.
  Counted(const k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  // The API server stored an object. `before` is null if the object is new, `after` is null if it is gone. Ignores pods
  // that request no address, and all objects but Nodes and pods.
  void Stored(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after);
  // The API server carried out a patch that changed nothing. Rule `no-patch`: the object is not a Node.
  void Unchanged(const k8sclient::Request& request);
  // The scheduler placed the pod when it saw this version of the Node. When the kubelet admits the pod, Counted takes
  // for granted that the kubelet sees this version or a newer one. Otherwise the kubelet's lag, and not the address
  // count, could be the cause of a rejection.
  void Placed(const std::string& uid, std::uint64_t node_version);

  // The kubelet admits a newly bound pod, or rejects it (false) if the Node, as the kubelet sees it, shows less than
  // this pod and the admitted pods request. Rule `rejected`: the kubelet rejects a pod only if IsOvertaken.
  [[nodiscard]] bool Admits(const std::string& node, const std::string& uid);
  // The kubelet restarts, and admits the pods that it has admitted before once more, the oldest first. Rule `rejected`:
  // each of them passes, unless IsOvertaken.
  void RestartKubelet(const std::string& node);

  // The address count that a Ready node should show now, by the stored blocks, pools and pods. number() is nothing if
  // the Node should show none, because its pods request more.
  struct Expected {
    std::int64_t usable = 0;
    std::int64_t held = 0;
    std::int64_t requested = 0;
    [[nodiscard]] std::optional<std::int64_t> number() const {
      return usable + held >= requested ? std::optional(usable + held) : std::nullopt;
    }
    friend bool operator==(const Expected&, const Expected&) = default;
  };
  // Returns the right counts of all Ready nodes, by name.
  [[nodiscard]] std::map<std::string, Expected> ExpectedOfNodes() const;
  // Describes a Ready node whose address count is wrong, for a person; empty: there is none.
  [[nodiscard]] std::string Deviation() const;
  // Describes a pod that is bound to no node, although a Ready node has or can get the addresses that it requests;
  // empty: there is none.
  [[nodiscard]] std::string PendingThatFits() const;

 private:
  struct Pod {
    std::int64_t units = 0;
    std::string node;
    bool is_admitted = false;  // the kubelet runs it
  };
  // A version of a Node. `at`: when the scheduler placed a pod by this version, or, in `lowered`, when it was stored.
  struct Placement {
    std::uint64_t version = 0;
    Nanos at = {};
  };
  // The address count that a Node shows from `since` on.
  struct Shown {
    Nanos since = {};
    std::uint64_t version = 0;
    std::optional<std::int64_t> number;
    // The write that lowered the address count to `number` and left eight addresses (LeftEight); nothing: there was no
    // such write.
    std::optional<Placement> lowered;
  };
  // The number of addresses that the node's pods request from `since` on.
  struct Requested {
    Nanos since;
    std::int64_t units = 0;
  };

  void NodeStored(const nlohmann::json& before, const nlohmann::json& after);
  void PodStored(const nlohmann::json& before, const nlohmann::json& after);
  void CheckLow(const std::string& node);
  // True: the scheduler placed a pod of this node by a version before shown.lowered, and not earlier than 3 s before
  // that write. If a smaller address count leaves eight addresses, the controller writes it without first removing the
  // old one, so pods like this one may request more than the new count (docs/adr/0012).
  [[nodiscard]] bool IsOvertaken(const std::string& node, const Shown& shown) const;
  // True: at some moment of the last 3 s the node's pods requested at least eight addresses less than `number`.
  [[nodiscard]] bool LeftEight(const std::string& node, std::int64_t number) const;
  [[nodiscard]] std::int64_t RequestedOn(const std::string& node) const;
  // The Node as the kubelet's informer shows it: the informer lags, never goes back, and shows at least `version_min`.
  [[nodiscard]] Shown SeenByKubelet(const std::string& node, std::uint64_t version_min);

  const k8sclient::testing::ModelApi& store_;
  Story& story_;
  std::map<std::string, Pod> pods_;                          // bound and active, by UID
  std::map<std::string, std::vector<Shown>> shown_;          // by node
  std::map<std::string, std::vector<Requested>> requested_;  // by node
  std::map<std::string, std::size_t> seen_;                  // index in shown_ that the kubelet saw last, by node
  std::map<std::string, Placement> placed_;                  // by the pod's UID
};

}  // namespace berth::sim
