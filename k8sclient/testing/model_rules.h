// SPDX-License-Identifier: Apache-2.0
// The CRDs' rules in CEL as code.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace berth::k8sclient::testing {

// Whether `self` keeps the rule; `old` is null where the rule is not about what was before, or nothing was.
using ModelRule = bool (*)(const nlohmann::json& self, const nlohmann::json& old);

// By the text of the rule, of which one blank stands for any white space. Throws std::runtime_error on one that is not
// known: whoever adds a rule to a CRD adds it here.
[[nodiscard]] ModelRule RuleOf(const std::string& text);

}  // namespace berth::k8sclient::testing
