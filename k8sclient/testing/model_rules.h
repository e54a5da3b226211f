// SPDX-License-Identifier: Apache-2.0
// RuleOf: the CRDs' CEL rules as code.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace berth::k8sclient::testing {

// True if `self` keeps the rule. `old` is null if the rule does not use the previous value, or if there is none.
using ModelRule = bool (*)(const nlohmann::json& self, const nlohmann::json& old);

// The code for a rule's text; any white space counts as one blank. Throws std::runtime_error for an unknown rule: a
// developer who adds a rule to a CRD must add it here.
[[nodiscard]] ModelRule RuleOf(const std::string& text);

}  // namespace berth::k8sclient::testing
