// SPDX-License-Identifier: Apache-2.0
// DELETE: finalizers, preconditions, and objects whose deletion waits for finalizers.
#include "e2e/contract/contract.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

constexpr const char* kFinalizer = "berth.dev/test";

// A block with finalizers, after a DELETE.
json Going(ContractClient& client, const json& finalizers = {kFinalizer}) {
  json block = client.Block();
  block["metadata"]["finalizers"] = finalizers;
  client.Created(block);
  client.Delete(PathOf(block));
  return client.Get(PathOf(block)).body;
}

json Finalizers(const json& finalizers) { return {{"metadata", {{"finalizers", finalizers}}}}; }

std::string DeletionIf(ContractClient& client, const char* key, const json& value) {
  const json block = client.Created(client.Block());
  const Said said = client.Delete(PathOf(block), {{key, value.is_null() ? block["metadata"][key] : value}});
  return said.Text() + ", then " + client.Get(PathOf(block)).Text();
}

}  // namespace

const std::vector<ContractCase>& DeletionCases() {
  static const std::vector<ContractCase> kCases = {
      {"ADeletedObjectIsGone",
       [](ContractClient& client) { return DeletionIf(client, "uid", nullptr); },
       "200, then 404 NotFound"},
      {"ADeletionOfWhatIsNotThereIsNotFound",
       [](ContractClient& client) { return client.Delete(PathOf(client.Block())).Text(); },
       "404 NotFound"},
      {"ADeletionTellsTheUidOfWhatItDeleted",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         const json told = client.Delete(PathOf(block)).body;
         const json uid = told.value("/details/uid"_json_pointer, json());
         return told.value("kind", "") + (uid == block["metadata"]["uid"] ? " of it" : " of none");
       },
       "Status of it"},
      {"ADeletionForAnotherUidIsAConflict",
       [](ContractClient& client) { return DeletionIf(client, "uid", "00000000-0000-0000-0000-000000000000"); },
       "409 Conflict, then 200"},
      {"ADeletionForAnotherVersionIsAConflict",
       [](ContractClient& client) { return DeletionIf(client, "resourceVersion", "1"); },
       "409 Conflict, then 200"},
      {"ADeletionForTheVersionOfTheObjectIsDone",
       [](ContractClient& client) { return DeletionIf(client, "resourceVersion", nullptr); },
       "200, then 404 NotFound"},
      {"AFinalizerKeepsWhatIsDeleted",
       [](ContractClient& client) {
         const json created = [&] {
           json block = client.Block();
           block["metadata"]["finalizers"] = {kFinalizer};
           return client.Created(block);
         }();
         const Said said = client.Delete(PathOf(created));
         const json left = client.Get(PathOf(created)).body["metadata"];
         return said.Text() + " " + said.body.value("kind", "") +
                (left.contains("deletionTimestamp") ? " going" : " not going") +
                (IsOlder(created["metadata"]["resourceVersion"], left["resourceVersion"]) ? " newer " : " not newer ") +
                left["generation"].dump();
       },
       "200 IPBlock going newer 2"},
      {"ASecondDeletionChangesNothing",
       [](ContractClient& client) {
         const json going = Going(client);
         const Said again = client.Delete(PathOf(going));
         return again.Text() + (again.HasVersionOf(going) ? " unchanged" : " another version");
       },
       "200 unchanged"},
      {"ADeletionOfWhatIsGoingComparesToo",
       [](ContractClient& client) { return client.Delete(PathOf(Going(client)), {{"resourceVersion", "1"}}).Text(); },
       "409 Conflict"},
      {"TheNameOfWhatIsGoingIsTaken",
       [](ContractClient& client) {
         Going(client);
         return client.Create(client.Block()).Text();
       },
       "409 AlreadyExists"},
      {"TheLastFinalizerTakesWhatIsGoingWithIt",
       [](ContractClient& client) {
         const json going = Going(client);
         const Said said = client.Patch(PathOf(going), Finalizers(nullptr));
         return said.Text() + " " + said.body.value("kind", "") + ", then " + client.Get(PathOf(going)).Text();
       },
       "200 IPBlock, then 404 NotFound"},
      {"AFinalizerThatIsLeftKeepsIt",
       [](ContractClient& client) {
         const json going = Going(client, {kFinalizer, "berth.dev/other"});
         client.Patch(PathOf(going), Finalizers({kFinalizer}));
         return client.Get(PathOf(going)).Text();
       },
       "200"},
      {"TheLastFinalizerStaysIfTheVersionIsOlder",
       [](ContractClient& client) {
         const json going = Going(client);
         client.Patch(PathOf(going), {{"free", 9}});
         json patch = Finalizers(nullptr);
         patch["metadata"]["resourceVersion"] = going["metadata"]["resourceVersion"];
         return client.Patch(PathOf(going), patch).Text() + ", then " + client.Get(PathOf(going)).Text();
       },
       "409 Conflict, then 200"},
      {"WhatIsGoingGetsNoNewFinalizer",
       [](ContractClient& client) {
         return client.Patch(PathOf(Going(client)), Finalizers({kFinalizer, "berth.dev/other"})).Text();
       },
       "422 Invalid metadata.finalizers"},
      {"WhatIsGoingIsChangedAsEver",
       [](ContractClient& client) { return client.Patch(PathOf(Going(client)), {{"free", 9}}).Text(); },
       "200"},
      {"WhatIsGoingDoesNotComeBack",
       [](ContractClient& client) {
         const json going = Going(client);
         const Said said = client.Patch(PathOf(going), {{"metadata", {{"deletionTimestamp", nullptr}}}});
         return said.Text() + (said.body["metadata"].contains("deletionTimestamp") ? " going" : " back");
       },
       "200 going"},
      {"FinalizersComeAndGoWhileNobodyDeletes",
       [](ContractClient& client) {
         const std::string path = PathOf(client.Created(client.Block()));
         return client.Patch(path, Finalizers({kFinalizer})).Text() + " " +
                client.Patch(path, Finalizers(nullptr)).Text() + " " + client.Get(path).Text();
       },
       "200 200 200"},
      {"ADeletionInOneNamespaceLeavesTheOther",
       [](ContractClient& client) {
         const json here = client.Created(client.Allocation());
         const json there = client.Created(client.Allocation("kube-system"));
         client.Delete(PathOf(here));
         return client.Get(PathOf(here)).Text() + ", " + client.Get(PathOf(there)).Text();
       },
       "404 NotFound, 200"},
  };
  return kCases;
}

}  // namespace berth::e2e
