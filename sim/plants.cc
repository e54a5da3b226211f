// SPDX-License-Identifier: Apache-2.0
// AllPlants, and the plants of agents, watches, controllers and address counts with the lies that make them.
#include "sim/plants.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "cni/attachment.h"
#include "crds/names.h"
#include "node/folder.h"
#include "node/held_file.h"
#include "reconciler/read_holders.h"
#include "sim/cluster.h"
#include "sim/counting_lies.h"
#include "sim/files.h"
#include "sim/kubelet.h"
#include "sim/lies.h"
#include "sim/pod_plants.h"
#include "sim/scheduler.h"

namespace berth::sim {
namespace {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

// Returns a function that removes the files whose path contains `text`.
std::function<void(const std::string&)> Removing(std::string text) {
  return [text = std::move(text)](const std::string& folder) { RemoveFilesLike(folder, text); };
}

// True: the patch changes the field `agent`, but no entry and no standby.
bool IsFence(const Request& request) {
  if (request.method != Method::kPatch) return false;
  const json body = json::parse(request.body, nullptr, false);
  return body.contains("agent") && !body.contains("allocations") && !body.contains("standby");
}

constexpr int kNotFound = 404;
constexpr int kConflict = 409;
// Answers a patch that met a conflict with success. The answer has the metadata that the API server showed last,
// because a client compares name and UID.
std::function<void(const Request&, Network::Answer&)> ConflictIsSuccess() {
  return [seen = std::make_shared<std::map<std::string, json>>()](const Request& request, Network::Answer& answer) {
    if (!answer) return;
    if (request.method == Method::kPatch && answer->status == kConflict && seen->contains(request.path)) {
      *answer = {.status = 200, .body = json{{"metadata", seen->at(request.path)}}.dump()};
    }
    const json body = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
    if (answer->ok() && body.contains("/metadata/uid"_json_pointer)) (*seen)[request.path] = body["metadata"];
  };
}

void ExistsIsSuccess(const Request& request, Network::Answer& answer) {
  if (request.method != Method::kPost || !answer || answer->status != kConflict) return;
  json body = json::parse(request.body);
  body["metadata"]["uid"] = "uid-of-nobody";
  body["metadata"]["resourceVersion"] = "1";
  *answer = {.status = 201, .body = body.dump()};
}

void ReadFromAnyCache(Request& request) {
  const bool is_consistent =
      std::ranges::none_of(request.query, [](const auto& item) { return item.first == "resourceVersion"; });
  if (request.method == Method::kGet && is_consistent) request.query.emplace_back("resourceVersion", "0");
}

bool IsGetOfPool(const Request& request) {
  return request.method == Method::kGet && request.path.starts_with(std::string(crds::kPoolsPath) + "/");
}

// Answers a failed GET of a pool with the pool as the process read it last: if `when_gone`, only a GET that finds no
// pool (404); otherwise only a GET that fails for another reason.
std::function<void(const Request&, Network::Answer&)> RepeatsPools(bool when_gone) {
  return [when_gone, told = std::make_shared<std::map<std::pair<std::string, std::string>, k8sclient::Response>>()](
             const Request& request, Network::Answer& answer) {
    if (!IsGetOfPool(request)) return;
    const std::pair key(CurrentProcess()->name, request.path);
    const bool is_gone = answer && answer->status == kNotFound;
    if (answer && answer->ok()) {
      (*told)[key] = *answer;
    } else if (told->contains(key) && is_gone == when_gone) {
      answer = told->at(key);
    }
  };
}

bool GoneIsNotTold(const std::string& line) { return json::parse(line)["type"] != "ERROR"; }

bool LosesSomeEvents(std::string& /*line*/) {
  constexpr std::uint64_t kOneIn = 8;
  return Below(kOneIn) != 0;
}

// Sends the new version of an object with the content that the object had one change before.
bool TellsOldContent(std::string& line) {
  static std::map<std::string, json> told;
  json event = json::parse(line);
  const json metadata = event["object"]["metadata"];
  if (!metadata.contains("name")) return true;
  json& last = told[metadata["name"].get<std::string>()];
  const json now = event["object"];
  if (!last.is_null() && last["metadata"]["uid"] == metadata["uid"]) event["object"] = last;
  event["object"]["metadata"] = metadata;
  last = now;
  line = event.dump();
  return true;
}

// Sets the grace period of all pods in the text to 0.
void HideGrace(std::string& text) {
  const std::string grace = "\"terminationGracePeriodSeconds\":";
  for (std::size_t at = text.find(grace); at != std::string::npos; at = text.find(grace, at + 1)) {
    const std::size_t begin = at + grace.size();
    text.replace(begin, text.find_first_not_of("0123456789", begin) - begin, "0");
  }
}
void HidesNetns(json& call) {
  if (!call["netns"].get_ref<const std::string&>().empty()) call["netns"] = "/proc/1/ns/net";
}

// Removes the pod's UID from the call. An entry without UID may belong to each pod with its name.
void NamesNoUid(json& call) {
  const std::string key = ";K8S_POD_UID=";
  std::string args = call["args"];
  const std::size_t begin = args.find(key);
  if (begin == std::string::npos) return;
  args.erase(begin, args.find(';', begin + 1) - begin);
  call["args"] = args;
}

// Gives each GC an empty list of attachments. (Without any list, a GC frees nothing.)
void SparesNothing(json& call) {
  if (call["command"] == "GC") call["config"]["cni.dev/valid-attachments"] = json::array();
}

// Gives each GC the name of the other network, so that its list is of the wrong network.
void MistakesTheNetwork(json& call) {
  if (call["command"] != "GC") return;
  json& name = call["config"]["name"];
  name = name == kFirstNetwork ? kSecondNetwork : kFirstNetwork;
}

// Lets any cache answer the reads that must show at least the process's own writes.
void ReadsBeforeOwnWrites(Request& request) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(request.query, [&](const auto& item) { return item.first == name; });
  };
  if (request.method != Method::kGet || has("watch") || !has("resourceVersionMatch")) return;
  std::erase_if(request.query, [](const auto& item) { return item.first == "resourceVersionMatch"; });
  for (auto& [name, value] : request.query) {
    if (name == "resourceVersion") value = "0";
  }
}

// Replaces one event of eight by a bookmark, as if the watch had sent all events up to its version.
bool TellsBookmarkEarly(std::string& line) {
  constexpr std::uint64_t kOneIn = 8;
  json event = json::parse(line);
  if (event["type"] == "ERROR" || Below(kOneIn) != 0) return true;
  const json version = event["object"]["metadata"]["resourceVersion"];
  event = {{"type", "BOOKMARK"},
           {"object",
            {{"kind", event["object"].value("kind", "")},
             {"apiVersion", event["object"].value("apiVersion", "")},
             {"metadata", {{"resourceVersion", version}}}}}};
  line = event.dump();
  return true;
}

bool IsEndOfPool(const Request& request) {
  return request.method == Method::kPatch && request.path.starts_with(crds::kPoolsPath) &&
         request.body.find("finalizers") != std::string::npos;
}

// Notes that the node has looked for old marks of DELs just now. So it never looks, and removes no mark.
void PutOffForgetting(const std::string& folder) {
  const auto nodes = node::Folder::Open(folder + "/run/nodes");
  if (!nodes) return;
  const auto own = nodes->Sub(folder.substr(folder.rfind('/') + 1));
  if (own) static_cast<void>(own->Write("forgot", std::to_string(node::BootTimeNow())).has_value());
}

// Replaces kStaticHash, so that the UIDs of static pods contain "-", like those of other pods.
constexpr std::string_view kDashedHash = "f00d-afe";
void DashesHash(json& call) {
  std::string args = call["args"];
  const std::size_t at = args.find(kStaticHash);
  if (at != std::string::npos) call["args"] = args.replace(at, kDashedHash.size(), kDashedHash);
}

void IsNotDated(json& call) { call["startedBootNanos"] = INT64_MAX; }

void ForgetQueuedDels(const std::string& folder) {
  const auto state = node::Folder::Open(folder + "/state");
  if (state) static_cast<void>(state->Remove("queue").has_value());
}

void NameTheMachine(const std::string& folder) {
  const auto state = node::Folder::Open(folder + "/state");
  if (state) static_cast<void>(state->Write("machine", "0123abcd\n", node::FileSync::kYes).has_value());
}

std::vector<Plant> OfAgents() {
  return {
      {.name = "journal-not-replayed",
       .what = "an agent that starts knows nothing of DELs that were answered before",
       .before_start = Removing("/journal")},
      {.name = "notes-ignored",
       .what = "an agent that starts knows nothing of addresses that were handed out and not written",
       .faults = {"kill", "late", "away", "meanwhile"},
       .before_start = Removing("/handed-out/")},
      {.name = "notes-not-moved",
       .what = "an agent whose files somebody removes records no note again",
       .faults = {"emptied", "away"},
       .before_start = Removing("/handed-out/")},
      {.name = "no-fence",
       .what = "an agent that starts does not write its blocks: what its predecessor sent may land later",
       .faults = {"kill", "late", "meanwhile", "overlap", "pause"},
       .lies = {.swallows = IsFence}},
      {.name = "conflict-is-success",
       .what = "an agent takes a patch that met a conflict for done",
       .faults = {"edit", "shared"},
       .lies = {.changes = ConflictIsSuccess()}},
      {.name = "creators-not-locked",
       .what = "the lock of the agent that may create blocks keeps no other agent out",
       .faults = {"meanwhile", "overlap", "pause"},
       .has_controllers = false,
       .before_start = Removing("/creator.lock"),
       .before_call = Removing("/creator.lock")},
      {.name = "del-overtakes-add",
       .what = "a DEL leaves no mark, so an ADD that began before it is served after it",
       .faults = {"sandbox"},
       .before_call = Removing("/deleted/")},
      {.name = "patch-does-not-compare",
       .what = "the API server accepts a patch although the object changed since the writer read it",
       .lies = {.rewrites = Without(Method::kPatch, "/metadata/resourceVersion")}},
      {.name = "exists-is-success",
       .what = "a program takes an object that another program created first for its own",
       .faults = {"election"},
       .lies = {.changes = ExistsIsSuccess}},
      {.name = "lost-is-refused",
       .what = "a program takes a write whose answer was lost for one that failed",
       .faults = {"lost", "late"},
       .lies = {.lost_is_refused = true}},
      {.name = "dates-not-told",
       .what = "answers of API servers have no Date",
       .faults = {"clocks", "pools", "scheduler"},
       .lies = {.changes =
                    [](const Request&, Network::Answer& answer) {
                      if (answer) answer->date.reset();
                    }}},
      {.name = "gc-spares-nothing", .what = "a GC also frees addresses that are in use", .call = SparesNothing},
      {.name = "gc-of-another-network",
       .what = "a GC frees addresses of another network than its list is for",
       .faults = {"gc", "second"},
       .call = MistakesTheNetwork},
      {.name = "syncs-nothing",
       .what = "a power cut also takes what an agent synced to disk",
       .faults = {"power", "deaf", "cut-off", "mute"},
       .ignores_syncs = true},
      {.name = "machines-have-one-identity",
       .what = "a machine takes the standby of another machine of its name for its own",
       .faults = {"replaced", "late", "deaf", "reboot"},
       .before_start = NameTheMachine},
      {.name = "calls-not-dated",
       .what = "an ADD counts as begun after every DEL",
       .faults = {"late"},
       .call = IsNotDated},
  };
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the plant owns and frees the function

std::vector<Plant> OfWatchesAndBounds() {
  return {
      {.name = "reads-from-any-cache",
       .what = "consistent reads come from a cache that lags",
       .faults = {"lag"},
       .lies = {.rewrites = ReadFromAnyCache}},
      {.name = "own-writes-not-awaited",
       .what = "a process may read an older version than its predecessor wrote",
       .faults = {"check", "direct", "lag"},
       .lies = {.rewrites = ReadsBeforeOwnWrites}},
      {.name = "pool-gone-ignored",
       .what = "a program takes the pool that it read before for the one that it does not find now",
       .faults = {"pool-replaced", "shared", "lag", "late", "give-back"},
       .lies = {.changes = RepeatsPools(/*when_gone=*/true)}},
      {.name = "pool-read-before",
       .what = "a program takes the pool that it read before for the one that it cannot read now",
       .faults = {"pool-replaced", "shared", "lag", "late", "give-back"},
       .lies = {.changes = RepeatsPools(/*when_gone=*/false)}},
      {.name = "gone-ignored",
       .what = "a program repeats a watch from a version that the API server has forgotten, instead of listing anew",
       .faults = {"compact", "restart", "deaf", "cut-off"},
       .lies = {.tells = GoneIsNotTold}},
      {.name = "watch-loses-events",
       .what = "a watch leaves out one event of eight",
       .faults = {"edit", "restart", "delete"},
       .lies = {.tells = LosesSomeEvents}},
      {.name = "watch-tells-old-content",
       .what = "a watch sends old content with a new version",
       .faults = {"edit", "late", "direct"},
       .lies = {.tells = TellsOldContent}},
      {.name = "bookmark-too-early",
       .what = "a bookmark names a version whose events the watch has not sent yet",
       .faults = {"restart", "edit"},
       .lies = {.tells = TellsBookmarkEarly}},
      {.name = "excludes-not-seen",
       .what = "nodes do not see what pools exclude",
       .faults = {"pools", "sandbox"},
       .lies = ToNodes(Replacing("\"exclude\"", "\"none\""))},
      {.name = "reservation-is-nothing",
       .what = "nodes take a reserved address of a block for a free one",
       .faults = {"pools", "sandbox"},
       .lies = ToNodes(Replacing("\"! r", "\"~ t=1 x=r"))},
      {.name = "marks-kept", .what = "marks of DELs are kept for ever", .before_call = PutOffForgetting},
      {.name = "queued-dels-ignored",
       .what = "an agent that starts knows nothing of DELs that were queued while no agent listened",
       .faults = {"queue", "kill", "meanwhile"},
       .has_controllers = false,
       .before_start = ForgetQueuedDels},
      {.name = "lists-without-end", .what = "a node lists its blocks ten times a second", .lists_without_end = true},
  };
}

std::vector<Plant> OfControllers() {
  return {
      {.name = "no-grace",
       .what = "the controller takes every pod's grace period for zero",
       .faults = {"no-del", "slow-end"},
       .lies = ChangingText(HideGrace)},
      {.name = "mirror-is-the-pod",
       .what = "the controller takes a static pod for gone when its mirror pod is gone",
       .faults = {"mirror", "no-del", "restart"},
       .lies = Replacing(kStaticHash, std::string(kDashedHash)),
       .call = DashesHash},
      {.name = "allocation-is-the-pod",
       .what = "the controller takes a pod for gone when its IPAllocation is gone",
       .frees_without_allocation = true},
      {.name = "gone-node-hands-out",
       .what = "a program that is cut off takes the last answers of the API server for current ones",
       .faults = {"cut-off", "check", "direct"},
       .lies = {.repeats_when_cut = true}},
      {.name = "put-back-over-standby",
       .what = "the controller does not know what is on standby",
       .faults = {"cut-off", "deaf", "sandbox"},
       .lies = ToControllers(Replacing("\"standby\"", "\"none\""))},
      {.name = "two-leaders-accept-two-pools",
       .what = "a leader accepts a pool although another leader changed the space in between",
       .faults = {"pools", "lag"},
       .lies = {.rewrites = OfKind(crds::kSpacesPath, Without(Method::kPatch, "/metadata/resourceVersion"))},
       .has_rivals = true},
      {.name = "pool-never-goes",
       .what = "the API server ignores patches that remove a pool's finalizer",
       .lies = {.swallows = IsEndOfPool}},
      {.name = "networks-not-compared",
       .what = "an entry of a pod's second network counts as one of the first",
       .faults = {"second", "no-del"},
       .lies = ToControllers(Replacing({{cni::NetworkDigits(kSecondNetwork), cni::NetworkDigits(kFirstNetwork)},
                                        {std::string("i=") + kSecondInterface, std::string("i=") + kFirstInterface}}))},
      {.name = "uid-not-compared",
       .what = "the controller takes a new pod of the same name for the old one",
       .faults = {"no-del"},
       .call = NamesNoUid},
      {.name = "netns-not-recorded",
       .what = "an agent does not learn which network namespace a container has",
       .faults = {"check"},
       .call = HidesNetns},
      {.name = "pods-without-addresses",
       .what = "the API server shows no addresses of pods",
       .faults = {"restore", "edit", "sandbox", "no-del"},
       .lies = Replacing("\"podIPs\"", "\"none\"")},
      {.name = "lease-of-a-node-that-is-cut-off",
       .what = "somebody renews the Lease of a node that is cut off",
       .renews_when_cut_off = true},
      {.name = "not-ready-is-ready",
       .what = "somebody renews the Lease of a node that is cut off, and the node counts as Ready",
       .lies = Replacing("\"Unknown\"", "\"True\""),
       .renews_when_cut_off = true},
  };
}

std::vector<Plant> OfCounting() {
  return {
      {.name = "pods-without-phase",
       .what = "pods that have ended count as if they ran",
       .faults = {"scheduler", "no-del", "slow-end"},
       .lies = ToControllers(Replacing("\"phase\"", "\"none\"")),
       .counts = true},
      {.name = "pods-without-requests",
       .what = "the controller sees no requests of pods",
       .lies = ToControllers(Replacing("\"resources\"", "\"none\"")),
       .counts = true},
      {.name = "cooling-is-over",
       .what = "cooling addresses count as free",
       .faults = {"scheduler"},
       .lies = ToControllers({.changes = AnswersNoCooling, .tells = TellsNoCooling}),
       .counts = true},
      {.name = "pod-lists-from-cache",
       .what = "consistent lists of a node's pods come from a cache that lags",
       .faults = {"scheduler", "lag", "number"},
       .lies = ListsPodsFromCache(),
       .counts = true},
      {.name = "nulls-not-sent",
       .what = "a patch cannot remove a number from a Node",
       .lies = {.rewrites = OfKind(reconciler::kNodesPath, DropsNulls)},
       .counts = true},
      {.name = "scheduler-sees-nodes-late",
       .what = "the scheduler sees a Node 10 s after the controller",
       .faults = {"scheduler", "kubelet", "number"},
       .counts = true,
       .lag_of_scheduler = std::chrono::seconds(10)},
      {.name = "stale-node-patch",
       .what = "the controller writes a number although the Node changed since it read the Node",
       .faults = {"scheduler", "number"},
       .lies = {.rewrites = OfKind(reconciler::kNodesPath, Without(Method::kPatch, "/metadata/resourceVersion"))},
       .counts = true},
      {.name = "block-deletion-does-not-compare",
       .what = "the controller deletes an empty block although an entry was written in between",
       .faults = {"scheduler", "cascade", "number"},
       .lies = {.rewrites = OfKind(crds::kBlocksPath, DeletesBlindlyOnceUsed)},
       .counts = true},
      {.name = "rise-not-shown",
       .what = "an agent does not see that its Node's number rose",
       .faults = {"scheduler", "lag", "number"},
       .lies = ToNodes(Replacing("\"allocatable\"", "\"none\"")),
       .counts = true},
      {.name = "unschedulable-not-shown",
       .what = "the controller does not see that a pod is unschedulable",
       .faults = {"scheduler", "number"},
       .lies = ToControllers(Replacing("\"Unschedulable\"", "\"none\"")),
       .counts = true},
  };
}

}  // namespace

const std::vector<Plant>& AllPlants() {
  static const std::vector<Plant> kPlants = [] {
    auto plants = OfAgents();
    std::ranges::move(OfWatchesAndBounds(), std::back_inserter(plants));
    std::ranges::move(OfControllers(), std::back_inserter(plants));
    std::ranges::move(OfCounting(), std::back_inserter(plants));
    std::ranges::move(PlantsOfPods(), std::back_inserter(plants));
    std::ranges::move(PlantsOfNetworks(), std::back_inserter(plants));
    std::ranges::move(PlantsOfLeadersAndThieves(), std::back_inserter(plants));
    std::ranges::move(PlantsOfEnds(), std::back_inserter(plants));
    return plants;
  }();
  return kPlants;
}

}  // namespace berth::sim
