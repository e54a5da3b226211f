// SPDX-License-Identifier: Apache-2.0
// Check: finds violations of docs/design.md, section "Invariants". Check uses none of the controller's code for these
// rules, so that it can find errors of the controller.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/inventory.h"

namespace berth::cli {

struct Finding {
  std::string kind = {};     // a word of the table in docs/troubleshooting.md
  std::string object = {};   // "ipblock/10.55.0.0-26"
  std::string space = {};    // of the block in `object`, if the finding is about one of its addresses
  std::string address = {};  // empty: the finding is not about an address
  std::string message = {};
  std::string remedy = {};
  friend auto operator<=>(const Finding&, const Finding&) = default;
};

// Findings, sorted. A change in progress may look like a violation for a moment: for example, a pod is deleted before
// its address is freed. Therefore a finding counts only if two checks, some seconds apart, both report it (InBoth).
[[nodiscard]] std::vector<Finding> Check(const Inventory& inventory);
[[nodiscard]] std::vector<Finding> InBoth(const std::vector<Finding>& first, const std::vector<Finding>& second);

// The report that `berthctl release --report` reads: {"findings": [...], "pools": 1, "blocks": 2, ...}.
[[nodiscard]] nlohmann::json ReportOf(const Inventory& inventory, const std::vector<Finding>& findings);

}  // namespace berth::cli
