// SPDX-License-Identifier: Apache-2.0
// ModelSchema: the bounds that a CRD's schema sets, read from the YAML file in crds/, so that tests in memory refuse
// what a real API server would.
//
// Types, sizes, lengths and ranges of numbers. Patterns and CEL are the real server's, in the end-to-end tests.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace berth::k8sclient::testing {

class ModelSchema {
 public:
  // Of a collection such as ".../ipblocks"; nothing is refused of one that is no custom resource of berth.
  [[nodiscard]] static const ModelSchema& Of(const std::string& collection);

  // What breaks a bound, as "field: why"; empty: nothing does.
  [[nodiscard]] std::string Violation(const nlohmann::json& object) const;

 private:
  nlohmann::json root_;
};

}  // namespace berth::k8sclient::testing
