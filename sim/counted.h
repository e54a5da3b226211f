// SPDX-License-Identifier: Apache-2.0
// Counted: the counted resource as the API server stores it, as a kubelet sees it, and as it should be.
//
// Everything here is computed from stored objects alone and shares no code with the controller's decision. Rules: `low`
// (a Node shows less than its bound pods request), `rejected` (a kubelet turns a pod away) and `no-patch` (a patch of a
// Node changes nothing).
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
// Succeeded or Failed.
[[nodiscard]] bool HasEnded(const nlohmann::json& pod);
// What the Node shows in status.allocatable; nothing: the key is missing.
[[nodiscard]] std::optional<std::int64_t> NumberOf(const nlohmann::json& node);
[[nodiscard]] bool IsReadyNode(const nlohmann::json& node);

class Counted {
 public:
  // Both must outlive this.
  Counted(const k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  // The API server stored an object; null: it was not there before, or is gone. Pods without requests are ignored.
  void Stored(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after);
  // A patch left its object as it was.
  void Unchanged(const k8sclient::Request& request);
  // The scheduler placed the pod when it saw this version of the Node. A kubelet has seen that version when it admits
  // the pod: otherwise a kubelet, and not the number, would be wrong.
  void Placed(const std::string& uid, std::uint64_t node_version);

  // The kubelet's admission of a newly bound pod. False: the Node shows less than the active pods request. Rule
  // `rejected`: that may only be where the number was lowered at that moment and left eight units.
  [[nodiscard]] bool Admits(const std::string& node, const std::string& uid);
  // The kubelet restarts and admits all its active pods anew, the oldest first. Rule `rejected`: all of them pass.
  void RestartKubelet(const std::string& node);

  // What a Ready node should show now, from blocks, pools and pods as they are stored; nothing: no number.
  struct Expected {
    std::int64_t usable = 0;
    std::int64_t held = 0;
    std::int64_t requested = 0;
    [[nodiscard]] std::optional<std::int64_t> number() const {
      return usable + held >= requested ? std::optional(usable + held) : std::nullopt;
    }
    friend bool operator==(const Expected&, const Expected&) = default;
  };
  // By name, of Ready nodes.
  [[nodiscard]] std::map<std::string, Expected> ExpectedOfNodes() const;
  // A Node that shows something else than it should, for a person; empty: there is none.
  [[nodiscard]] std::string Deviation() const;
  // A pod that no node has, though one has or can get the addresses that it requests; empty: there is none.
  [[nodiscard]] std::string PendingThatFits() const;

 private:
  struct Pod {
    std::int64_t units = 0;
    std::string node;
    bool is_admitted = false;  // the kubelet runs it
  };
  // A version of a Node, and when it was written or the scheduler placed a pod by it.
  struct Placement {
    std::uint64_t version = 0;
    Nanos at = {};
  };
  // What a Node showed from a time on.
  struct Shown {
    Nanos since = {};
    std::uint64_t version = 0;
    std::optional<std::int64_t> number;
    // The last write that made the number smaller and left eight units.
    std::optional<Placement> lowered;
  };
  // What the node's pods request from a time on.
  struct Requested {
    Nanos since;
    std::int64_t units = 0;
  };

  void NodeStored(const nlohmann::json& before, const nlohmann::json& after);
  void PodStored(const nlohmann::json& before, const nlohmann::json& after);
  void CheckLow(const std::string& node);
  // The controller writes a smaller number that leaves eight units without taking the old one away first. Pods that the
  // scheduler still placed by the old one, or just before, may be too many for it (docs/adr/0012). Whether the node has
  // such a pod.
  [[nodiscard]] bool IsOvertaken(const std::string& node, const Shown& shown) const;
  // At some moment of the last three seconds the number left eight units above what the node's pods requested.
  [[nodiscard]] bool LeftEight(const std::string& node, std::int64_t number) const;
  [[nodiscard]] std::int64_t RequestedOn(const std::string& node) const;
  // What the kubelet's informer has of its Node: it lags, and never goes back.
  [[nodiscard]] Shown SeenByKubelet(const std::string& node, std::uint64_t version_min);

  const k8sclient::testing::ModelApi& store_;
  Story& story_;
  std::map<std::string, Pod> pods_;                          // bound and active, by UID
  std::map<std::string, std::vector<Shown>> shown_;          // by node
  std::map<std::string, std::vector<Requested>> requested_;  // by node
  std::map<std::string, std::size_t> seen_;                  // by the node's kubelet, an index
  std::map<std::string, Placement> placed_;                  // by UID
};

}  // namespace berth::sim
