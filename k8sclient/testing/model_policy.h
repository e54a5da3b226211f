// SPDX-License-Identifier: Apache-2.0
// The admission policy of install/base/policy-blocks.yaml, as far as berth relies on it: who may write what of an
// IPBlock. The cases in e2e/crds/objects/policy.yaml test that this code and a real API server decide the same.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace berth::k8sclient::testing {

// The sender of a write, as its credentials identify it.
struct Writer {
  std::string node = {};       // the node that the credentials name; empty: none
  bool is_controller = false;  // the service account berth-controller, which may "reconcile" ipblocks
  bool may_override = false;   // a person
};

// "node <name>", "controller", "unbound" (credentials that name no node); anybody else is a person.
[[nodiscard]] Writer WriterOf(const std::string& who);

// Why the policy refuses the write; nothing: it does not. before is null for a new block, after for a deletion.
[[nodiscard]] std::optional<std::string> RefusalByPolicy(const Writer& writer, const nlohmann::json& before,
                                                         const nlohmann::json& after);

}  // namespace berth::k8sclient::testing
