// SPDX-License-Identifier: Apache-2.0
// Nodes: which there are, and whether their kubelets are heard of.
//
// A kubelet renews its Lease every ten seconds. One that renewed it after a pod was gone has spoken with the API server
// since, so it knows. Times in Leases are the nodes' own and are never compared: what counts is that they change, and
// at which version of the API server. A watch of its own tells of them, which may lag behind that of pods.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "ipam/label_selector.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

struct SeenNode {
  std::string name;
  bool is_ready = false;
  // Somebody promised that it is off (taint node.kubernetes.io/out-of-service).
  bool is_out_of_service = false;
  ipam::Labels labels = {};
};

struct SeenLease {
  std::string node;
  std::string renewed;  // renewTime, as it was read
  std::uint64_t version = 0;
};

class Nodes {
 public:
  void Put(SeenNode node);
  void Remove(const std::string& name) { nodes_.erase(name); }
  void PutLease(SeenLease lease);
  void RemoveLease(const std::string& node) { renewals_.erase(node); }

  // nullptr: there is none.
  [[nodiscard]] const SeenNode* Find(const std::string& name) const;
  // The API server's version of the last renewal of its Lease that was seen; 0: none was.
  [[nodiscard]] std::uint64_t RenewedAt(const std::string& node) const;

  [[nodiscard]] const std::map<std::string, SeenNode>& all() const { return nodes_; }

  struct Renewal {
    std::string time;
    std::uint64_t version = 0;
  };
  [[nodiscard]] const std::map<std::string, Renewal>& renewals() const { return renewals_; }

 private:
  std::map<std::string, SeenNode> nodes_;
  std::map<std::string, Renewal> renewals_;
};

}  // namespace berth::reconciler
