// SPDX-License-Identifier: Apache-2.0
// Placement: on which nodes a pod may run, by its nodeSelector, required node affinity and tolerations, with the
// meaning that kube-scheduler gives them.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>
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
  friend auto operator<=>(const Toleration&, const Toleration&) = default;
};

struct NodeRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
  bool is_field = false;  // from matchFields, where metadata.name is the only key

  [[nodiscard]] bool Matches(const std::string& node, const ipam::Labels& labels) const;
  friend auto operator<=>(const NodeRequirement&, const NodeRequirement&) = default;
};

struct Placement {
  ipam::Labels node_selector;
  // Required node affinity: a node has to match all requirements of at least one term. Nothing: no affinity.
  std::optional<std::vector<std::vector<NodeRequirement>>> terms;
  std::vector<Toleration> tolerations;

  // True if kube-scheduler may place the pod on the node, as far as labels and taints say.
  [[nodiscard]] bool Admits(const std::string& node, const ipam::Labels& labels,
                            const std::vector<Taint>& taints) const;
  // About how much memory the placement needs.
  [[nodiscard]] std::size_t bytes() const;
  friend auto operator<=>(const Placement&, const Placement&) = default;
};

// Kubernetes does not limit the size of a placement, but the controller keeps the placements of waiting pods in memory,
// and compares them with each node. So the controller creates no block for a pod whose placement needs more than this.
inline constexpr std::size_t kPlacementBytesMax = 8'192;
// Limit of the bytes of all different placements together. Otherwise a tenant could create pods with different
// placements until the controller has no memory left.
inline constexpr std::size_t kPlacementsBytesMax = std::size_t{64} << 20;

// Returns the one object that all equal placements of this process share, so that replicas of a Deployment need little
// memory. nullptr: the placement would exceed one of the limits. Any thread may call it.
[[nodiscard]] std::shared_ptr<const Placement> SharedPlacement(Placement placement);

// Reads a Pod's spec. A field whose form is not that of Kubernetes counts as absent.
[[nodiscard]] Placement ReadPlacement(const nlohmann::json& spec);
// Reads a Node's spec. A cordon counts as the taint node.kubernetes.io/unschedulable, even if the Node has no such
// taint yet.
[[nodiscard]] std::vector<Taint> ReadTaints(const nlohmann::json& spec);

}  // namespace berth::reconciler
