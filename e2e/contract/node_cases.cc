// SPDX-License-Identifier: Apache-2.0
// The behaviour of nodes and pods on which address counts rely: a node's status with address counts, bindings,
// conditions, and the pods of a node.
#include "e2e/contract/contract.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

constexpr const char* kCounted = "ipam.berth.dev/ipv4";
constexpr const char* kPods = "/api/v1/pods";

json Numbers(const json& number) {
  return {{"status", {{"capacity", {{kCounted, number}}}, {"allocatable", {{kCounted, number}}}}}};
}

json AtVersionOf(const json& object, json patch) {
  patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"];
  return patch;
}

// The address counts in capacity and allocatable: "3/3"; "-": none.
std::string NumbersOf(const json& node) {
  std::string text;
  for (const char* const part : {"capacity", "allocatable"}) {
    const json values = node.value("status", json::object()).value(part, json::object());
    text += (text.empty() ? "" : "/") + values.value(kCounted, std::string("-"));
  }
  return text;
}

std::string CpusOf(const json& node) { return node.value("/status/capacity/cpu"_json_pointer, std::string("-")); }

// Creates a node with address count 3, and returns it.
json Counted(ContractClient& client) {
  const json node = client.Created(client.Node());
  return client.Patch(PathOf(node) + "/status", Numbers("3")).body;
}

// Patches the status of the node at its version. Kubernetes' controllers also write to a new Node, perhaps between two
// requests: after a conflict reads the node into `node`, and tries again.
Said PatchStatusAtVersion(ContractClient& client, json& node, const json& patch) {
  constexpr int kTries = 20;
  Said said = client.Patch(PathOf(node) + "/status", AtVersionOf(node, patch));
  for (int i = 1; i < kTries && said.status == 409; ++i) {
    node = client.Get(PathOf(node)).body;
    said = client.Patch(PathOf(node) + "/status", AtVersionOf(node, patch));
  }
  return said;
}

std::string PodsOn(ContractClient& client, const std::string& node) {
  const json items = client.Get(kPods, {{"fieldSelector", "spec.nodeName=" + node}}).body["items"];
  std::string names;
  for (const json& item : items) {
    const std::string name = item["metadata"]["name"];
    names += (names.empty() ? "" : " ") + name.substr(name.rfind('-') + 1);
  }
  return names.empty() ? "none" : names;
}

json Unschedulable() {
  return {{"type", "PodScheduled"},
          {"status", "False"},
          {"reason", "Unschedulable"},
          {"message", "0/1 nodes are available: 1 Insufficient ipam.berth.dev/ipv4."}};
}

std::string ScheduledOf(const json& pod) {
  std::string text;
  for (const json& one : pod.value("/status/conditions"_json_pointer, json::array())) {
    if (one["type"] == "PodScheduled") text += one["status"].get<std::string>() + one.value("reason", std::string());
  }
  return text;
}

}  // namespace

const std::vector<ContractCase>& NodeCases() {
  static const std::vector<ContractCase> kCases = {
      {"ANodeIsCreatedWithItsStatus",
       [](ContractClient& client) { return CpusOf(client.Created(client.Node())); },
       "2"},
      {"AStatusPatchAddsAResourceToANode",
       [](ContractClient& client) {
         const json node = Counted(client);
         return NumbersOf(node) + " cpu " + CpusOf(node);
       },
       "3/3 cpu 2"},
      {"ANullInAStatusPatchRemovesAResourceOfANode",
       [](ContractClient& client) {
         const json node = client.Patch(PathOf(Counted(client)) + "/status", Numbers(nullptr)).body;
         return NumbersOf(node) + " cpu " + CpusOf(node);
       },
       "-/- cpu 2"},
      {"ANullForAResourceThatANodeLacksChangesNothing",
       [](ContractClient& client) {
         json node = client.Created(client.Node());
         const Said said = PatchStatusAtVersion(client, node, Numbers(nullptr));
         return NumbersOf(said.body) + (said.HasVersionOf(node) ? " unchanged" : " another version");
       },
       "-/- unchanged"},
      {"APatchOfANodeLeavesItsStatus",
       [](ContractClient& client) {
         const json node = Counted(client);
         json patch = Numbers("7");
         patch["metadata"]["labels"]["a"] = "b";
         const json patched = client.Patch(PathOf(node), patch).body;
         return NumbersOf(patched) + " " + patched["metadata"]["labels"].value("a", "no label");
       },
       "3/3 b"},
      {"AStatusPatchLeavesTheSpecOfANode",
       [](ContractClient& client) {
         const json node = client.Created(client.Node());
         json patch = Numbers("3");
         patch["spec"]["unschedulable"] = true;
         const json patched = client.Patch(PathOf(node) + "/status", patch).body;
         return NumbersOf(patched) +
                (patched.value("spec", json::object()).contains("unschedulable") ? " cordoned" : "");
       },
       "3/3"},
      {"AStatusPatchChangesTheLabelsOfANode",
       [](ContractClient& client) {
         const json node = client.Created(client.Node());
         json patch = Numbers("3");
         patch["metadata"]["labels"]["a"] = "b";
         const json patched = client.Patch(PathOf(node) + "/status", patch).body;
         return patched["metadata"].value("labels", json::object()).value("a", "no label");
       },
       "b"},
      {"AStatusPatchOfANodeWithItsVersionIsTaken",
       [](ContractClient& client) {
         json node = Counted(client);
         return NumbersOf(PatchStatusAtVersion(client, node, Numbers("4")).body);
       },
       "4/4"},
      {"AStatusPatchOfANodeWithAnOlderVersionIsAConflict",
       [](ContractClient& client) {
         const json node = Counted(client);
         client.Patch(PathOf(node) + "/status", Numbers("4"));
         return client.Patch(PathOf(node) + "/status", AtVersionOf(node, Numbers("5"))).Text() + ", " +
                NumbersOf(client.Get(PathOf(node)).body);
       },
       "409 Conflict, 4/4"},
      {"AStatusPatchThatRepeatsTheNumbersKeepsTheVersion",
       [](ContractClient& client) {
         json node = Counted(client);
         const Said said = PatchStatusAtVersion(client, node, Numbers("3"));
         return said.Text() + (said.HasVersionOf(node) ? " unchanged" : " another version");
       },
       "200 unchanged"},
      {"ANodeThatIsCreatedAnewHasNoneOfItsOldNumbers",
       [](ContractClient& client) {
         client.Delete(PathOf(Counted(client)));
         return NumbersOf(client.Created(client.Node()));
       },
       "-/-"},
      {"APodIsCreatedPendingWhateverItsStatusSays",
       [](ContractClient& client) {
         json pod = client.Pod();
         pod["status"] = {{"phase", "Running"}, {"conditions", {Unschedulable()}}};
         const json created = client.Created(pod);
         return created["status"]["phase"].get<std::string>() + ScheduledOf(created);
       },
       "Pending"},
      {"AStatusPatchOfAPodSetsConditionsAndLeavesItsSpec",
       [](ContractClient& client) {
         const json pod = client.Created(client.Pod());
         const json patch = {{"status", {{"conditions", {Unschedulable()}}}}, {"spec", {{"nodeName", "n1"}}}};
         const json patched = client.Patch(PathOf(pod) + "/status", patch).body;
         return ScheduledOf(patched) + " on " + patched["spec"].value("nodeName", std::string("no node"));
       },
       "FalseUnschedulable on no node"},
      {"ABindingAssignsAPodAndSaysThatItIsScheduled",
       [](ContractClient& client) {
         const json pod = client.Created(client.Pod());
         client.Patch(PathOf(pod) + "/status", {{"status", {{"conditions", {Unschedulable()}}}}});
         const Said said = client.Bind(pod, client.space());
         const json bound = client.Get(PathOf(pod)).body;
         return said.Text() + " " + ScheduledOf(bound) +
                (bound["spec"]["nodeName"] == client.space() ? " on it" : " elsewhere");
       },
       "201 True on it"},
      {"AnAssignedPodIsNotAssignedAgain",
       [](ContractClient& client) {
         const json pod = client.Created(client.Pod());
         client.Bind(pod, client.space());
         return client.Bind(pod, client.space()).Text();
       },
       "409 Conflict"},
      {"APodThatIsNotThereIsNotAssigned",
       [](ContractClient& client) { return client.Bind(client.Pod(), client.space()).Text(); },
       "404 NotFound"},
      {"TheConsistentListOfANodesPodsHoldsThoseThatWereJustAssigned",
       [](ContractClient& client) {
         for (int i = 0; i < 3; ++i) client.Created(client.Pod(i));
         client.Bind(client.Pod(0), client.space());
         client.Bind(client.Pod(2), client.space());
         return PodsOn(client, client.space()) + ", elsewhere " + PodsOn(client, client.space() + "x");
       },
       "0 2, elsewhere none"},
      {"AWatchOfANodesPodsShowsABindingAsANewPod",
       [](ContractClient& client) {
         const json pod = client.Created(client.Pod());
         client.Bind(pod, client.space());
         const auto events = client.Watch(kPods,
                                          {{"resourceVersion", pod["metadata"]["resourceVersion"]},
                                           {"fieldSelector", "spec.nodeName=" + client.space()}},
                                          1);
         return events.front()["type"].get<std::string>() + " " +
                (events.front()["object"]["metadata"]["name"] == pod["metadata"]["name"] ? "it" : "another");
       },
       "ADDED it"},
      {"APodThatWasCreatedOnANodeIsListedThere",
       [](ContractClient& client) {
         json pod = client.Pod();
         pod["spec"]["nodeName"] = client.space();
         client.Created(pod);
         return PodsOn(client, client.space());
       },
       "0"},
      {"TheRequestsOfAPodAreTextAndEqualItsLimits",
       [](ContractClient& client) {
         const json resources = client.Created(client.Pod())["spec"]["containers"][0]["resources"];
         return resources["requests"].dump() + (resources["requests"] == resources["limits"] ? " both" : " requests");
       },
       R"({"ipam.berth.dev/ipv4":"1"} both)"},
  };
  return kCases;
}

}  // namespace berth::e2e
