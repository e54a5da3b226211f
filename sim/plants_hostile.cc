// SPDX-License-Identifier: Apache-2.0
// Plants of agents that load twice, of elections, and of policies.
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "sim/files.h"
#include "sim/plants.h"
#include "sim/scheduler.h"

namespace berth::sim {
namespace {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

constexpr std::string_view kControllerLeases = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases";

// True: the patch changes the field `agent` of a block, but no entry.
bool IsFenceOfAgent(const Request& request) {
  if (request.method != Method::kPatch || !request.path.starts_with(crds::kBlocksPath)) return false;
  const json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  return body.contains("agent") && !body.contains("allocations");
}

// Removes the machine's notes of unwritten addresses when a process has fenced a block for the second time.
std::function<void(const Request&, Network::Answer&)> ForgetsNotesWhenFencedTwice() {
  return [fenced = std::make_shared<std::set<std::pair<std::string, std::string>>>()](const Request& request,
                                                                                      Network::Answer& answer) {
    if (!IsFenceOfAgent(request) || !answer || !answer->ok()) return;
    const std::string process = CurrentProcess()->name;
    if (fenced->emplace(process, request.path).second) return;
    RemoveFilesLike(std::string(kFiles) + process.substr(0, process.find('.')), "/handed-out/");
  };
}

// Answers each failed renewal of the controllers' Lease with success.
void LeaseIsNeverLost(const Request& request, Network::Answer& answer) {
  if (request.method != Method::kPatch || !request.path.starts_with(kControllerLeases) || (answer && answer->ok()))
    return;
  answer = k8sclient::Response{.status = 200, .body = request.body};
}

void LeaseHoldsForEver(const Request& request, Network::Answer& answer) {
  if (request.method != Method::kGet || !request.path.starts_with(kControllerLeases) || !answer || !answer->ok())
    return;
  json lease = json::parse(answer->body);
  lease["spec"]["leaseDurationSeconds"] = 1'000'000;
  answer->body = lease.dump();
}

// Removes from each new cooling entry the attachment and the entry that it replaces.
void LeavesNoTrace(Request& request) {
  if (request.method != Method::kPatch || !request.path.starts_with(crds::kBlocksPath)) return;
  json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object() || !body.contains("allocations")) return;
  for (json& entry : body["allocations"]) {
    if (!entry.is_string() || !entry.get_ref<const std::string&>().starts_with("~ t=")) continue;
    const std::string text = entry;
    entry = text.substr(0, text.find(" f="));
  }
  request.body = body.dump();
}

}  // namespace

std::vector<Plant> PlantsOfLeadersAndThieves() {
  return {
      {.name = "notes-forgotten-when-fenced-twice",
       .what = "an agent that fences a block a second time forgets the notes of addresses that it has not written yet",
       .faults = {"starting", "kill", "meanwhile"},
       .has_controllers = false,
       .lies = {.changes = ForgetsNotesWhenFencedTwice()}},
      {.name = "lease-is-never-lost",
       .what = "a leader takes a renewal of the Lease that failed for done",
       .faults = {"election", "late", "lost"},
       .lies = {.changes = LeaseIsNeverLost},
       .elects = true},
      {.name = "lease-never-ends",
       .what = "a controller takes the Lease of a leader that is gone for one that holds",
       .faults = {"election", "kill"},
       .lies = {.changes = LeaseHoldsForEver},
       .elects = true},
      {.name = "no-policies",
       .what = "the admission policies are not in force",
       .faults = {"stolen"},
       .admits_all = true},
      {.name = "freed-without-a-trace",
       .what = "the controller does not say whose entry it freed",
       .faults = {"no-del", "cut-off"},
       .lies = {.rewrites = LeavesNoTrace}},
  };
}

}  // namespace berth::sim
