// SPDX-License-Identifier: Apache-2.0
// Check: what is wrong in a cluster, by docs/design.md, section "Invariants". It shares no rule with the controller: an
// error of one would be found by the other.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/inventory.h"

namespace berth::cli {

struct Finding {
  std::string kind = {};     // one word of the table in cli/README.md
  std::string object = {};   // "ipblock/10.55.0.0-26"
  std::string space = {};    // of the address; empty: it is about none
  std::string address = {};  // empty: it is about none
  std::string message = {};
  std::string remedy = {};
  friend auto operator<=>(const Finding&, const Finding&) = default;
};

// Sorted. What is under way looks wrong for a moment (a pod is deleted before its address comes back), so only what two
// looks find that lie some seconds apart is wrong: InBoth.
[[nodiscard]] std::vector<Finding> Check(const Inventory& inventory);
[[nodiscard]] std::vector<Finding> InBoth(const std::vector<Finding>& first, const std::vector<Finding>& second);

// {"findings": [...], "pools": 1, "blocks": 2, ...}: the report that `berthctl release --report` reads.
[[nodiscard]] nlohmann::json ReportOf(const Inventory& inventory, const std::vector<Finding>& findings);

}  // namespace berth::cli
