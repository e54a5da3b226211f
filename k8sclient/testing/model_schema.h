// SPDX-License-Identifier: Apache-2.0
// ModelSchema: reads a CRD from its YAML file in crds/, so that ModelApi refuses the same objects as a real API server.
// ModelSchema checks types, bounds, patterns, choices, required fields, and the CEL rules (as code in model_rules.cc).
// Like a real API server, ModelSchema drops unknown fields and sets defaults.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "k8sclient/testing/model_request.h"

namespace berth::k8sclient::testing {

struct SchemaNode;

class ModelSchema {
 public:
  // The schema of a collection such as ".../ipblocks". If the collection is none of berth's, the schema allows
  // anything.
  [[nodiscard]] static const ModelSchema& Of(const std::string& collection);

  [[nodiscard]] bool is_known() const { return root_ != nullptr; }
  // "IPBlock".
  [[nodiscard]] const std::string& kind() const { return kind_; }
  // True if status is a subresource.
  [[nodiscard]] bool has_status() const { return has_status_; }
  [[nodiscard]] bool IsSelectable(const std::string& field) const;

  // Drops unknown fields and sets defaults.
  void Complete(nlohmann::json& object) const;

  // The rule that the object breaks. Like a real API server, does not check values again that are equal in `before`
  // (null: the object is new).
  [[nodiscard]] std::optional<Refused> Violation(const nlohmann::json& object,
                                                 const nlohmann::json& before = nullptr) const;

 private:
  std::shared_ptr<const SchemaNode> root_;
  std::set<std::string> selectable_;
  std::string kind_;
  bool has_status_ = false;
};

}  // namespace berth::k8sclient::testing
