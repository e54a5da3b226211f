// SPDX-License-Identifier: Apache-2.0
// Plants about GC, about how pods, containers and blocks end, and about a controller that stops reclaiming.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "sim/files.h"
#include "sim/plants.h"

namespace berth::sim {
namespace {

using nlohmann::json;

// Gives each GC the latest possible beginning, so that each ADD seems to be answered before the GC began.
void BeginsLate(json& call) {
  if (call["command"] == "GC") call["startedBootNanos"] = std::numeric_limits<std::int64_t>::max();
}

// Also clears the block's standby in each patch in which the controller frees an entry. Only the controller writes
// cooling entries with the part f=.
void ClearsStandbyToo(k8sclient::Request& request) {
  if (request.method != k8sclient::Method::kPatch || !request.path.starts_with(crds::kBlocksPath)) return;
  json patch = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!patch.is_object() || !patch.contains("allocations")) return;
  const auto is_freed = [](const json& entry) {
    if (!entry.is_string()) return false;
    const auto& text = entry.get_ref<const std::string&>();
    return text.starts_with("~ t=") && text.contains(" f=");
  };
  if (std::ranges::none_of(patch["allocations"], is_freed)) return;
  patch["standby"] = nullptr;
  request.body = patch.dump();
}

void TellsThatReclaimingStopped(k8sclient::Request& request) {
  if (request.method != k8sclient::Method::kPatch || !request.path.starts_with(crds::kPoolsPath)) return;
  json patch = json::parse(request.body);
  json& status = patch["status"];
  if (!status.contains("conditions")) return;
  json& conditions = status["conditions"];
  std::erase_if(conditions.get_ref<json::array_t&>(), [](const json& one) { return one["type"] == "Reclaiming"; });
  conditions.push_back({{"type", "Reclaiming"},
                        {"status", "False"},
                        {"reason", "TooManyOrphans"},
                        {"message", "too many entries name no pod"},
                        {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  request.body = patch.dump();
}

}  // namespace

std::vector<Plant> PlantsOfEnds() {
  return {
      {.name = "gc-begins-late",
       .what = "a GC also frees the addresses of ADDs that ended after the GC began",
       .faults = {"gc", "pause"},
       .has_controllers = false,
       .call = BeginsLate},
      {.name = "running-adds-not-noted",
       .what = "a GC of berth-direct does not see which ADDs run",
       .faults = {"gc", "direct", "pause"},
       .before_call = [](const std::string& folder) { RemoveFilesLike(folder, "/running/"); }},
      {.name = "block-given-back-during-an-add",
       .what = "the controller gives a block back although an ADD wrote it in between",
       .faults = {"give-back", "direct"},
       .gives_back_blindly = true},
      {.name = "finalizer-of-a-block-in-use",
       .what = "the controller gives back a block that is in use",
       .gives_back_in_use = true},
      {.name = "freed-with-standby",
       .what = "the controller writes a freed entry from a copy of the block that lacks the addresses on standby",
       .faults = {"no-del", "cascade", "slow-end"},
       .lies = {.rewrites = ClearsStandbyToo}},
      {.name = "reclaiming-stops",
       .what = "the controller tells that it reclaims nothing because too many entries name no pod",
       .lies = {.rewrites = TellsThatReclaimingStopped}},
  };
}

}  // namespace berth::sim
