// SPDX-License-Identifier: Apache-2.0
// Nodes: which Nodes exist, and whether their kubelets renew their Leases.
//
// A kubelet renews its Lease every 10 s. If a kubelet has renewed its Lease after a pod was gone, the kubelet has been
// in contact with the API server since, so it knows that the pod is gone. The times in Leases come from the nodes' own
// clocks, so the controller never compares them with each other or with its own clock. It notes only that the time in a
// Lease has changed, and the Lease's resourceVersion. The watch of Leases may be behind the watch of pods.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipam/label_selector.h"
#include "reconciler/placement.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// The value of `ipam.berth.dev/<resource>` on a Node. A value that is no whole number counts as the largest number;
// only an edit by hand makes such a value.
struct ShownNumber {
  std::optional<std::int64_t> capacity;
  std::optional<std::int64_t> allocatable;

  // The kubelet copies capacity to allocatable, so the scheduler may soon see the larger value.
  [[nodiscard]] std::optional<std::int64_t> Highest() const { return std::max(capacity, allocatable); }
  friend bool operator==(const ShownNumber&, const ShownNumber&) = default;
};

struct SeenNode {
  std::string name;
  std::string uid = {};
  std::string resource_version = {};
  bool is_ready = false;
  // The Node has the taint node.kubernetes.io/out-of-service, by which somebody promises that the machine is off; and
  // the Node's condition Ready is neither True nor False, because the kubelet does not report.
  bool is_out_of_service = false;
  ipam::Labels labels = {};
  std::vector<Taint> taints = {};                   // with the taint of a cordon (spec.unschedulable)
  std::int64_t pods_max = 0;                        // allocatable pods; 0: the kubelet has not reported it
  std::map<std::string, ShownNumber> numbers = {};  // address counts by resource, without the prefix
};

struct SeenLease {
  std::string node;
  std::string renewed;  // spec.renewTime, not parsed
  std::uint64_t version = 0;
};

class Nodes {
 public:
  void Put(SeenNode node);
  // Takes the Node from the answer to a write of the controller. The watch has not shown it yet.
  void PutWritten(SeenNode node);
  // Takes the Node that the watch shows.
  void PutShown(SeenNode node, SteadyTime now);
  void Remove(const std::string& name);
  void PutLease(SeenLease lease);
  void RemoveLease(const std::string& node) { renewals_.erase(node); }

  // nullptr: there is no such Node.
  [[nodiscard]] const SeenNode* Find(const std::string& name) const;
  // Since when the watch has shown the Node without a count of the resource. Nothing: the watch shows a count, the
  // watch has not shown yet a count that the controller has written, or there is no such Node.
  [[nodiscard]] std::optional<SteadyTime> AbsentSince(const std::string& node, const std::string& resource) const;
  // True if the watch has shown a count of the resource on a Node of that name, or this controller has written one. The
  // deletion of the Node resets this.
  [[nodiscard]] bool WasShown(const std::string& node, const std::string& resource) const;
  // The resourceVersion of the node's Lease at the last renewal that the watch has shown; 0: none.
  [[nodiscard]] std::uint64_t RenewedAt(const std::string& node) const;

  [[nodiscard]] const std::map<std::string, SeenNode>& all() const { return nodes_; }

  struct Renewal {
    std::string time;
    std::uint64_t version = 0;
  };
  [[nodiscard]] const std::map<std::string, Renewal>& renewals() const { return renewals_; }

 private:
  // The address counts of one Node. A count is present as soon as the controller has written it or the watch has shown
  // it. A count is absent only when the watch has shown the Node without it.
  struct Shown {
    std::string uid;
    SteadyTime first_seen;
    std::set<std::string> present;                   // resources with a count
    std::map<std::string, SteadyTime> absent_since;  // by resource, if it was present before
  };

  std::map<std::string, SeenNode> nodes_;
  std::map<std::string, Shown> shown_;
  std::map<std::string, Renewal> renewals_;
};

}  // namespace berth::reconciler
