// SPDX-License-Identifier: Apache-2.0
// Plants about GC, and about how pods and containers end.
#include <cstdint>
#include <limits>

#include <nlohmann/json.hpp>

#include "sim/files.h"
#include "sim/plants.h"

namespace berth::sim {
namespace {

using nlohmann::json;

// Each ADD that was answered counts as answered before the GC began.
void BeginsLate(json& call) {
  if (call["command"] == "GC") call["startedBootNanos"] = std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::vector<Plant> PlantsOfEnds() {
  return {
      {.name = "gc-begins-late",
       .what = "a GC also frees the addresses of ADDs that ended after the GC began",
       .faults = {"gc"},
       .call = BeginsLate},
      {.name = "running-adds-not-noted",
       .what = "a GC of berth-direct does not see which ADDs run",
       .faults = {"gc", "direct"},
       .before_call = [](const std::string& folder) { RemoveFilesLike(folder, "/running/"); }},
  };
}

}  // namespace berth::sim
