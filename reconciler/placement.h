// SPDX-License-Identifier: Apache-2.0
// Placement: on which nodes a pod may run, as far as the pod itself says: nodeSelector, required node affinity and
// tolerations, with the meaning that kube-scheduler gives them.
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
  bool is_field = false;  // of matchFields, where metadata.name is the only key

  [[nodiscard]] bool Matches(const std::string& node, const ipam::Labels& labels) const;
  friend bool operator==(const NodeRequirement&, const NodeRequirement&) = default;
};

struct Placement {
  ipam::Labels node_selector;
  // Required node affinity: one of the terms has to match, each with all of its requirements. No value: no affinity.
  std::optional<std::vector<std::vector<NodeRequirement>>> terms;
  std::vector<Toleration> tolerations;

  // Whether kube-scheduler may place the pod there as far as labels and taints tell.
  [[nodiscard]] bool Admits(const std::string& node, const ipam::Labels& labels,
                            const std::vector<Taint>& taints) const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// From a Pod's spec. What has another form than the API server gives it counts as absent.
[[nodiscard]] Placement ReadPlacement(const nlohmann::json& spec);
// From a Node's spec. A cordon is the taint node.kubernetes.io/unschedulable, whether the Node carries it yet or not.
[[nodiscard]] std::vector<Taint> ReadTaints(const nlohmann::json& spec);

}  // namespace berth::reconciler
