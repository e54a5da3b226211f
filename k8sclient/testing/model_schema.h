// SPDX-License-Identifier: Apache-2.0
// ModelSchema: what a CRD says of its objects, read from the YAML file in crds/, so that tests in memory refuse what a
// real API server would: types, bounds, patterns, choices, what is required, and the rules in CEL, which stand in
// model_rules.cc as code. Unknown fields are dropped and defaults are set, as there.
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
  // Of a collection such as ".../ipblocks". Of one that is no custom resource of berth anything is taken.
  [[nodiscard]] static const ModelSchema& Of(const std::string& collection);

  [[nodiscard]] bool is_known() const { return root_ != nullptr; }
  // "IPBlock".
  [[nodiscard]] const std::string& kind() const { return kind_; }
  // Whether status is written apart.
  [[nodiscard]] bool has_status() const { return has_status_; }
  [[nodiscard]] bool IsSelectable(const std::string& field) const;

  // Drops unknown fields and sets defaults.
  void Complete(nlohmann::json& object) const;

  // What the object breaks. What stands in `before` (null: a creation) as well is not checked again; nor does the real
  // server refuse it.
  [[nodiscard]] std::optional<Refused> Violation(const nlohmann::json& object,
                                                 const nlohmann::json& before = nullptr) const;

 private:
  std::shared_ptr<const SchemaNode> root_;
  std::set<std::string> selectable_;
  std::string kind_;
  bool has_status_ = false;
};

}  // namespace berth::k8sclient::testing
