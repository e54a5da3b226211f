// SPDX-License-Identifier: Apache-2.0
// The plants, and the lies that make them.
#include "sim/pod_plants.h"

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "reconciler/read_holders.h"
#include "sim/lies.h"

namespace berth::sim {
namespace {

using nlohmann::json;

// Removes the freed entry that the controller's cooling entry contains.
void HideFreedEntry(std::string& text) {
  constexpr std::string_view kForget = " f=";
  for (std::size_t at = text.find("\"~ "); at != std::string::npos; at = text.find("\"~ ", at + 1)) {
    const std::size_t end = text.find('"', at + 1);
    const std::size_t forget = text.find(kForget, at);
    if (forget == std::string::npos || forget > end) continue;
    const std::size_t freed = text.find(' ', forget + kForget.size());
    if (freed < end) text.erase(freed, end - freed);
  }
}

// Gives an address to each pod whose phase is Pending.
void GivePendingPodsAnAddress(std::string& text) {
  const std::string phase = R"("phase":"Pending")";
  const std::string more = R"(,"podIPs":[{"ip":"10.99.0.1"}])";
  for (std::size_t at = text.find(phase); at != std::string::npos; at = text.find(phase, at + 1)) {
    text.insert(at + phase.size(), more);
  }
}

// Sets each grace period of 2^31 s and more to 0.
void WrapLongGrace(std::string& text) {
  constexpr std::string_view kGraceOf = "GracePeriodSeconds\":";
  constexpr std::size_t kLong = 10;  // digits
  for (std::size_t at = text.find(kGraceOf); at != std::string::npos; at = text.find(kGraceOf, at + 1)) {
    const std::size_t begin = at + kGraceOf.size();
    const std::size_t digits = text.find_first_not_of("0123456789", begin) - begin;
    if (digits >= kLong) text.replace(begin, digits, "0");
  }
}

void ListNoPods(const k8sclient::Request& request, Network::Answer& answer) {
  if (request.path != reconciler::kPodsPath || !answer || !answer->ok()) return;
  json list = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (!list.is_object() || !list.contains("items")) return;
  list["items"] = json::array();
  answer->body = list.dump();
}
// Drops the watch lines with a grace period, which only pods have.
bool TellOfNoPods(const std::string& line) {
  return line.find("\"terminationGracePeriodSeconds\"") == std::string::npos;
}

void EndIfTerminating(json& object) {
  if (!object.is_object() || !object.contains("/metadata/deletionTimestamp"_json_pointer)) return;
  const auto status = object.find("status");
  if (status != object.end() && status->contains("phase")) (*status)["phase"] = "Succeeded";
}

void EndTerminatingPods(std::string& text) {
  if (text.find("\"deletionTimestamp\"") == std::string::npos) return;
  json said = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return;
  EndIfTerminating(said);
  if (said.contains("object")) EndIfTerminating(said["object"]);
  if (said.contains("items")) {
    for (json& item : said["items"]) EndIfTerminating(item);
  }
  text = said.dump();
}

}  // namespace

std::vector<Plant> PlantsOfPods() {
  return {
      {.name = "sandbox-condition-not-seen",
       .what = "the controller does not see that a pod was deleted by force while its sandbox was there",
       .faults = {"slow-end", "direct", "shared"},
       .lies = ToControllers(Replacing("\"PodReadyToStartContainers\"", "\"none\""))},
      {.name = "freed-entry-not-seen",
       .what = "an agent does not see which entry the controller freed, so it does not look for the sandbox",
       .faults = {"slow-end"},
       .lies = ToNodes(ChangingText(HideFreedEntry))},
      {.name = "terminating-is-ended",
       .what = "the controller takes a pod that is being deleted for one that has ended",
       .faults = {"slow-end", "direct", "shared"},
       .lies = ToControllers(ChangingText(EndTerminatingPods))},
      {.name = "bound-pods-live",
       .what = "the controller takes a pod that somebody bound to a Node that is gone for one that lives there",
       .faults = {"ghost", "stolen", "no-del"},
       .lies = ToControllers(ChangingText(GivePendingPodsAnAddress))},
      {.name = "long-grace-wraps",
       .what = "the controller takes a pod's grace period of 68 years or more for zero",
       .faults = {"odd-pods", "slow-end", "direct"},
       .lies = ToControllers(ChangingText(WrapLongGrace))},
      {.name = "pods-not-listed",
       .what = "the controller sees no pods, but finds each pod that it asks for",
       .faults = {"restart", "no-del"},
       .lies = ToControllers({.changes = ListNoPods, .tells = TellOfNoPods})},
  };
}

}  // namespace berth::sim
