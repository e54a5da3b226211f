// SPDX-License-Identifier: Apache-2.0
// Placement: on which nodes a pod may run, by its nodeSelector, required node affinity and tolerations, with the
// meaning that kube-scheduler gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipam/label_selector.h"

namespace berth::reconciler {

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute
  friend bool operator==(const Taint&, const Taint&) = default;
};

struct Toleration {
  std::string key;  // empty with `exists`: every key
  bool exists = false;
  std::string value;
  std::string effect;  // empty: every effect

  [[nodiscard]] bool Tolerates(const Taint& taint) const;
  friend bool operator==(const Toleration&, const Toleration&) = default;
};

struct NodeRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
  bool is_field = false;  // from matchFields, where metadata.name is the only key

  [[nodiscard]] bool Matches(const std::string& node, const ipam::Labels& labels) const;
  friend bool operator==(const NodeRequirement&, const NodeRequirement&) = default;
};

struct Placement {
  ipam::Labels node_selector;
  // Required node affinity: a node has to match all requirements of at least one term. Nothing: no affinity.
  std::optional<std::vector<std::vector<NodeRequirement>>> terms;
  std::vector<Toleration> tolerations;

  // True if kube-scheduler may place the pod on the node, as far as labels and taints say.
  [[nodiscard]] bool Admits(const std::string& node, const ipam::Labels& labels,
                            const std::vector<Taint>& taints) const;
  // The number of labels, requirements, values and tolerations.
  [[nodiscard]] std::size_t parts() const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Kubernetes does not limit the parts of a placement, but the controller keeps the placement of each waiting pod, and
// compares it with each node. The controller creates no block for a pod whose placement has more parts.
inline constexpr std::size_t kPlacementPartsMax = 1'000;

// Reads a Pod's spec. A field whose form is not that of Kubernetes counts as absent.
[[nodiscard]] Placement ReadPlacement(const nlohmann::json& spec);
// Reads a Node's spec. A cordon counts as the taint node.kubernetes.io/unschedulable, even if the Node has no such
// taint yet.
[[nodiscard]] std::vector<Taint> ReadTaints(const nlohmann::json& spec);

}  // namespace berth::reconciler
