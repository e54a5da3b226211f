// SPDX-License-Identifier: Apache-2.0
// POST and PATCH: which fields the server stores, refuses, and sets itself.
#include "e2e/contract/contract.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

json PatchAt(const json& object, json patch) {
  patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"];
  return patch;
}

// Creates a block with two entries, and returns it.
json TwoEntries(ContractClient& client) {
  json block = client.Block();
  block["used"] = 2;
  block["allocations"] = {{"0", "! a"}, {"1", "! b"}};
  return client.Created(block);
}

std::string CreationWith(ContractClient& client, const char* pointer, const json& value) {
  json block = client.Block();
  block[json::json_pointer(pointer)] = value;
  return client.Create(block).Text();
}

// "stays" or "changed": whether a patch of metadata changes `key`; or the server's refusal.
std::string PatchOfMetadata(ContractClient& client, const char* key, const json& value) {
  const json block = client.Created(client.Block());
  const Said said = client.Patch(PathOf(block), {{"metadata", {{key, value}}}});
  if (!said.ok()) return said.Text();
  return said.body["metadata"][key] == block["metadata"][key] ? "stays" : "changed";
}

}  // namespace

const std::vector<ContractCase>& WriteCases() {
  static const std::vector<ContractCase> kCases = {
      {"ANewObjectHasAUidAVersionAGenerationAndATime",
       [](ContractClient& client) {
         const json metadata = client.Created(client.Block())["metadata"];
         return std::string(metadata.value("uid", "").empty() ? "no uid" : "uid") + " " +
                (IsOlder("0", metadata.value("resourceVersion", "0")) ? "version" : "no version") + " " +
                metadata.value("generation", json()).dump() + " " +
                metadata.value("creationTimestamp", std::string("no time")).substr(0, 2);
       },
       "uid version 1 20"},
      {"ATakenNameIsSaidSo",
       [](ContractClient& client) {
         client.Created(client.Block());
         return client.Create(client.Block()).Text();
       },
       "409 AlreadyExists"},
      {"TheNameOfADeletedObjectIsFreeForAnother",
       [](ContractClient& client) {
         const json first = client.Created(client.Block());
         client.Delete(PathOf(first));
         const Said second = client.Create(client.Block());
         return second.Text() + (second.HasUidOf(first) ? " the same uid" : " another uid");
       },
       "201 another uid"},
      {"AUidOfTheCallerIsNotTaken",
       [](ContractClient& client) {
         json block = client.Block();
         block["metadata"]["uid"] = "mine";
         return std::string(client.Created(block)["metadata"]["uid"] == "mine" ? "taken" : "another");
       },
       "another"},
      {"ACreationWithAVersionIsRefused",
       [](ContractClient& client) { return CreationWith(client, "/metadata/resourceVersion", "7"); },
       "500"},
      {"ACreationNeedsAName",
       [](ContractClient& client) { return CreationWith(client, "/metadata", json::object()); },
       "422 Invalid metadata.name"},
      {"ANameInCapitalsIsRefused",
       [](ContractClient& client) { return CreationWith(client, "/metadata/name", "A"); },
       "422 Invalid metadata.name"},
      {"ACreationNeedsAKind",
       [](ContractClient& client) {
         json block = client.Block();
         const std::string path = CollectionPath(block);
         block.erase("kind");
         return client.Send({.method = k8sclient::Method::kPost, .path = path, .body = block.dump()}).Text();
       },
       "400 BadRequest"},
      {"WhatIsNoJsonIsRefused",
       [](ContractClient& client) {
         const std::string path = CollectionPath(client.Block());
         return client.Send({.method = k8sclient::Method::kPost, .path = path, .body = "{"}).Text();
       },
       "400 BadRequest"},
      {"AFieldThatTheKindDoesNotHaveIsDropped",
       [](ContractClient& client) {
         json block = client.Block();
         block["bogus"] = 1;
         block["spec"]["bogus"] = 1;
         const json created = client.Created(block);
         return std::string(created.contains("bogus") || created["spec"].contains("bogus") ? "kept" : "dropped");
       },
       "dropped"},
      {"AFieldThatIsLeftOutHasItsDefault",
       [](ContractClient& client) {
         const json spec = client.Created(client.Pool())["spec"];
         return spec.value("affinity", std::string("none")) + " " + spec.value("warmAddresses", json()).dump();
       },
       "Node 16"},
      {"APatchChangesWhatItNames",
       [](ContractClient& client) {
         const json patched = client.Patch(PathOf(TwoEntries(client)), {{"free", 9}}).body;
         return patched["free"].dump() + " " + patched["used"].dump() + " " + patched["allocations"].dump();
       },
       R"(9 2 {"0":"! a","1":"! b"})"},
      {"ANullTakesAKeyAway",
       [](ContractClient& client) {
         const json patch = {{"used", 1}, {"allocations", {{"0", nullptr}}}};
         return client.Patch(PathOf(TwoEntries(client)), patch).body["allocations"].dump();
       },
       R"({"1":"! b"})"},
      {"ANullOfAKeyThatIsNotThereIsNotStored",
       [](ContractClient& client) {
         const json block = TwoEntries(client);
         const Said said = client.Patch(PathOf(block), {{"allocations", {{"7", nullptr}}}});
         return said.body["allocations"].dump() + (said.HasVersionOf(block) ? " unchanged" : " another version");
       },
       R"({"0":"! a","1":"! b"} unchanged)"},
      {"APatchWithTheVersionOfTheObjectRaisesIt",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         const Said said = client.Patch(PathOf(block), PatchAt(block, {{"free", 9}}));
         return said.Text() + (IsOlder(block["metadata"]["resourceVersion"], said.version()) ? " newer" : " not newer");
       },
       "200 newer"},
      {"APatchWithAnOlderVersionIsAConflict",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         client.Patch(PathOf(block), {{"free", 9}});
         return client.Patch(PathOf(block), PatchAt(block, {{"free", 8}})).Text();
       },
       "409 Conflict"},
      {"APatchWithAnOlderVersionIsAConflictThoughItChangesNothing",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         client.Patch(PathOf(block), {{"free", 9}});
         return client.Patch(PathOf(block), PatchAt(block, {{"free", 9}})).Text();
       },
       "409 Conflict"},
      {"APatchThatChangesNothingKeepsTheVersion",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         const Said said = client.Patch(PathOf(block), PatchAt(block, {{"free", 0}}));
         return said.Text() + (said.HasVersionOf(block) ? " the same" : " another");
       },
       "200 the same"},
      {"APatchForAnotherUidIsRefused",
       [](ContractClient& client) { return PatchOfMetadata(client, "uid", "00000000-0000-0000-0000-000000000000"); },
       "422 Invalid metadata.uid"},
      {"APatchForTheUidOfTheObjectIsTaken",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         return client.Patch(PathOf(block), {{"metadata", {{"uid", block["metadata"]["uid"]}}}, {"free", 9}}).Text();
       },
       "200"},
      {"APatchOfWhatIsNotThereIsNotFound",
       [](ContractClient& client) { return client.Patch(PathOf(client.Block()), {{"free", 9}}).Text(); },
       "404 NotFound"},
      {"TheNameIsNotPatched",
       [](ContractClient& client) { return PatchOfMetadata(client, "name", "another"); },
       "400 BadRequest"},
      {"TheGenerationIsTheServers",
       [](ContractClient& client) { return PatchOfMetadata(client, "generation", 77); },
       "stays"},
      {"TheTimeOfCreationIsTheServers",
       [](ContractClient& client) { return PatchOfMetadata(client, "creationTimestamp", "2020-01-01T00:00:00Z"); },
       "stays"},
      {"ANullLeavesTheTimeOfCreation",
       [](ContractClient& client) { return PatchOfMetadata(client, "creationTimestamp", nullptr); },
       "stays"},
      {"NobodySetsATimeOfDeletion",
       [](ContractClient& client) { return PatchOfMetadata(client, "deletionTimestamp", "2020-01-01T00:00:00Z"); },
       "422 Invalid metadata.deletionTimestamp"},
      {"AChangeOfContentRaisesTheGenerationAndOneOfLabelsDoesNot",
       [](ContractClient& client) {
         const std::string path = PathOf(client.Created(client.Block()));
         const json labelled = client.Patch(path, {{"metadata", {{"labels", {{"a", "b"}}}}}}).body;
         const json changed = client.Patch(path, {{"free", 9}}).body;
         return labelled["metadata"]["generation"].dump() + " " + changed["metadata"]["generation"].dump();
       },
       "1 2"},
      {"VersionsGrowFromKindToKind",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         const json pool = client.Created(client.Pool());
         const Said again = client.Patch(PathOf(block), {{"free", 9}});
         const std::string version = pool["metadata"]["resourceVersion"];
         return std::string(IsOlder(block["metadata"]["resourceVersion"], version) ? "grows" : "does not") +
                (IsOlder(version, again.version()) ? " grows" : " does not");
       },
       "grows grows"},
      {"TheStatusIsNotCreated",
       [](ContractClient& client) {
         json pool = client.Pool();
         pool["status"] = {{"blocks", 3}};
         return client.Created(pool).value("status", json()).dump();
       },
       "null"},
      {"TheStatusIsNotPatchedWithTheObject",
       [](ContractClient& client) {
         const json pool = client.Created(client.Pool());
         const Said said = client.Patch(PathOf(pool), {{"status", {{"blocks", 3}}}});
         return said.body.value("status", json()).dump() +
                (said.HasVersionOf(pool) ? " unchanged" : " another version");
       },
       "null unchanged"},
      {"TheStatusAloneIsPatchedAsASubresource",
       [](ContractClient& client) {
         const json pool = client.Created(client.Pool());
         const json patch = {
             {"metadata", {{"labels", {{"a", "b"}}}}}, {"spec", {{"disabled", true}}}, {"status", {{"blocks", 3}}}};
         const json patched = client.Patch(PathOf(pool) + "/status", patch).body;
         return patched["spec"]["disabled"].dump() + " " + patched["status"]["blocks"].dump() + " " +
                patched["metadata"].value("labels", json()).dump() + " " + patched["metadata"]["generation"].dump();
       },
       "false 3 null 1"},
      {"APatchOfTheStatusWithAnOlderVersionIsAConflict",
       [](ContractClient& client) {
         const json pool = client.Created(client.Pool());
         client.Patch(PathOf(pool), {{"spec", {{"disabled", true}}}});
         return client.Patch(PathOf(pool) + "/status", PatchAt(pool, {{"status", {{"blocks", 3}}}})).Text();
       },
       "409 Conflict"},
      {"AKindWithoutTheSubresourceDoesNotHaveIt",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         return client.Patch(PathOf(block) + "/status", {{"free", 9}}).Text();
       },
       "404 NotFound"},
      {"ThePatchedMetadataAloneIsToldOnRequest",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         const json told = client.Patch(PathOf(block), {{"free", 9}}, k8sclient::kPartialMetadata).body;
         return told.value("kind", "") + " " + told["metadata"]["generation"].dump() +
                (told.contains("free") ? " free" : "");
       },
       "PartialObjectMetadata 2"},
      {"AnOwnerNeedsAUid",
       [](ContractClient& client) {
         json allocation = client.Allocation();
         allocation["metadata"]["ownerReferences"] = {{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "a"}}};
         return client.Create(allocation).Text();
       },
       "422 Invalid metadata.ownerReferences.uid"},
      {"AnObjectIsCreatedInItsNamespaceAlone",
       [](ContractClient& client) {
         const json here = client.Created(client.Allocation());
         return here["metadata"]["namespace"].get<std::string>() + ": " + client.Get(PathOf(here)).Text() +
                ", elsewhere: " + client.Get(PathOf(client.Allocation("kube-system"))).Text();
       },
       "default: 200, elsewhere: 404 NotFound"},
      {"TheSameNameInAnotherNamespaceIsAnotherObject",
       [](ContractClient& client) {
         const json here = client.Created(client.Allocation());
         const Said there = client.Create(client.Allocation("kube-system"));
         return there.Text() + (there.HasUidOf(here) ? " the same" : " another");
       },
       "201 another"},
      {"ANamespaceThatIsNotThatOfThePathIsRefused",
       [](ContractClient& client) {
         json allocation = client.Allocation();
         const std::string path = CollectionPath(allocation);
         allocation["metadata"]["namespace"] = "kube-system";
         return client.Send({.method = k8sclient::Method::kPost, .path = path, .body = allocation.dump()}).Text();
       },
       "400 BadRequest"},
  };
  return kCases;
}

}  // namespace berth::e2e
