// SPDX-License-Identifier: Apache-2.0
// LabelSelector: the nodes or namespaces that may use a pool, with the meaning of Kubernetes' metav1.LabelSelector.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace berth::ipam {

using Labels = std::map<std::string, std::string>;

struct LabelRequirement {
  enum class Operator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist };
  std::string key;
  Operator op;
  std::vector<std::string> values;  // for kIn and kNotIn; not empty

  friend bool operator==(const LabelRequirement&, const LabelRequirement&) = default;
};

struct LabelSelector {
  std::vector<LabelRequirement> requirements;  // all must match; a matchLabels entry is kIn with one value

  // An empty selector matches everything. kNotIn also matches an object without the key, like in Kubernetes.
  [[nodiscard]] bool Matches(const Labels& labels) const;
  [[nodiscard]] bool empty() const { return requirements.empty(); }
  // "zone in (a,b), gpu, !old", for messages; "" for an empty selector.
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const LabelSelector&, const LabelSelector&) = default;
};

}  // namespace berth::ipam
