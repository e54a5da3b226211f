// SPDX-License-Identifier: Apache-2.0
// Nodes: which there are, and whether their kubelets are heard of.
//
// A kubelet renews its Lease every ten seconds. One that renewed it after a pod was gone has spoken with the API server
// since, so it knows. Times in Leases are the nodes' own and are never compared: what counts is that they change, and
// at which version of the API server. A watch of its own tells of them, which may lag behind that of pods.
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

// What a Node says of one resource `ipam.berth.dev/<resource>`. A value that is no whole number, which only an edit by
// hand makes, counts as the largest one.
struct ShownNumber {
  std::optional<std::int64_t> capacity;
  std::optional<std::int64_t> allocatable;

  // The kubelet copies capacity to allocatable, so the larger one is what the scheduler may go by soon.
  [[nodiscard]] std::optional<std::int64_t> Highest() const { return std::max(capacity, allocatable); }
  friend bool operator==(const ShownNumber&, const ShownNumber&) = default;
};

struct SeenNode {
  std::string name;
  std::string uid = {};
  std::string resource_version = {};
  bool is_ready = false;
  // Somebody promised that it is off (taint node.kubernetes.io/out-of-service).
  bool is_out_of_service = false;
  ipam::Labels labels = {};
  std::vector<Taint> taints = {};                   // a cordon (spec.unschedulable) included, as its taint
  std::int64_t pods_max = 0;                        // allocatable pods; 0: the kubelet has not said it
  std::map<std::string, ShownNumber> numbers = {};  // by resource, without the prefix
};

struct SeenLease {
  std::string node;
  std::string renewed;  // renewTime, as it was read
  std::uint64_t version = 0;
};

class Nodes {
 public:
  void Put(SeenNode node);
  // Takes the Node that answered a write of the controller. The watch has yet to show it.
  void PutWritten(SeenNode node, SteadyTime now);
  // Takes the Node that the watch shows, unless it is older than a write of the controller in the last minute. (After
  // a minute the reason may be a restored backup.)
  void PutShown(SeenNode node, SteadyTime now);
  void Remove(const std::string& name);
  void PutLease(SeenLease lease);
  void RemoveLease(const std::string& node) { renewals_.erase(node); }

  // nullptr: there is none.
  [[nodiscard]] const SeenNode* Find(const std::string& name) const;
  // Since when the watch has shown the Node without a number of that resource. Nothing: it shows one, or no such Node.
  [[nodiscard]] std::optional<SteadyTime> AbsentSince(const std::string& node, const std::string& resource) const;
  // Whether the watch has ever shown a number of that resource on a Node of that name, or this controller wrote one.
  [[nodiscard]] bool WasShown(const std::string& node, const std::string& resource) const;
  // The API server's version of the last renewal of its Lease that was seen; 0: none was.
  [[nodiscard]] std::uint64_t RenewedAt(const std::string& node) const;

  [[nodiscard]] const std::map<std::string, SeenNode>& all() const { return nodes_; }

  struct Renewal {
    std::string time;
    std::uint64_t version = 0;
  };
  [[nodiscard]] const std::map<std::string, Renewal>& renewals() const { return renewals_; }

 private:
  // The numbers of one Node. A number is present as soon as the controller has written it or the watch has shown it.
  // It is absent only when the watch has shown that.
  struct Shown {
    std::string uid;
    SteadyTime first_seen;
    std::uint64_t written = 0;  // version of the controller's last write
    SteadyTime written_at;
    std::set<std::string> present;                   // resources
    std::map<std::string, SteadyTime> absent_since;  // resources that were present before
  };

  std::map<std::string, SeenNode> nodes_;
  std::map<std::string, Shown> shown_;
  std::map<std::string, Renewal> renewals_;
};

}  // namespace berth::reconciler
