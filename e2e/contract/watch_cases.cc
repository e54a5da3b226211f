// SPDX-License-Identifier: Apache-2.0
// Watches: where they begin, which events they send in which order, and how they end.
#include "e2e/contract/contract.h"

namespace berth::e2e {
namespace {

using k8sclient::Query;
using nlohmann::json;

constexpr const char* kSoon = "10";  // seconds; the test ends a watch earlier, after enough events

// A version before the case's first write.
std::string Before(ContractClient& client) { return client.List(Blocks()).version(); }

Query From(const std::string& version, const char* seconds = kSoon) {
  return {{"resourceVersion", version}, {"timeoutSeconds", seconds}};
}

// Creates and changes a block, and waits until every watch that begins now sees the change.
json ChangedBlock(ContractClient& client) {
  client.Created(client.Block(0));
  Said changed = client.Patch(PathOf(client.Block(0)), {{"free", 9}});
  client.AwaitCache(changed.version());
  return std::move(changed.body);
}

}  // namespace

const std::vector<ContractCase>& WatchCases() {
  static const std::vector<ContractCase> kCases = {
      {"WhatHappensIsToldInOrder",
       [](ContractClient& client) {
         const std::string before = Before(client);
         client.Created(client.Block(0));
         client.Created(client.Block(1));
         client.Patch(PathOf(client.Block(0)), {{"free", 9}});
         client.Delete(PathOf(client.Block(1)));
         return TextOf(client.Watch(Blocks(), From(before), 4));
       },
       "ADDED 10.55.0.0-26, ADDED 10.55.1.0-26, MODIFIED 10.55.0.0-26, DELETED 10.55.1.0-26"},
      {"AnEventHoldsTheObjectAsOfThen",
       [](ContractClient& client) {
         const std::string before = Before(client);
         client.Created(client.Block());
         const Said first = client.Patch(PathOf(client.Block()), {{"free", 8}});
         client.Patch(PathOf(client.Block()), {{"free", 9}});
         const auto events = client.Watch(Blocks(), From(before), 2);
         return std::string(events.at(1)["object"] == first.body ? "equal" : "different");
       },
       "equal"},
      {"ADeletedObjectIsToldAsItWasWithAVersionOfItsOwn",
       [](ContractClient& client) {
         const json changed = ChangedBlock(client);
         client.Delete(PathOf(changed));
         const std::string version = changed["metadata"]["resourceVersion"];
         const json told = client.Watch(Blocks(), From(version), 1).at(0)["object"];
         return told["free"].dump() +
                (IsOlder(version, told["metadata"]["resourceVersion"]) ? " newer" : " not newer") +
                (told["metadata"].contains("deletionTimestamp") ? " going" : "");
       },
       "9 newer"},
      {"ADeletionThatAFinalizerHoldsUpIsAChangeFirst",
       [](ContractClient& client) {
         json block = client.Block();
         block["metadata"]["finalizers"] = {"berth.dev/test"};
         const std::string created = client.Created(block)["metadata"]["resourceVersion"];
         client.Delete(PathOf(block));
         client.Patch(PathOf(block), {{"metadata", {{"finalizers", nullptr}}}});
         const auto events = client.Watch(Blocks(), From(created), 2);
         return TextOf(events) + (events.at(0)["object"]["metadata"].contains("deletionTimestamp") ? ", going" : "");
       },
       "MODIFIED 10.55.0.0-26, DELETED 10.55.0.0-26, going"},
      {"AWatchFromAVersionTellsWhatCameAfterIt",
       [](ContractClient& client) {
         const std::string created = client.Created(client.Block())["metadata"]["resourceVersion"];
         client.Patch(PathOf(client.Block()), {{"free", 9}});
         return TextOf(client.Watch(Blocks(), From(created), 1));
       },
       "MODIFIED 10.55.0.0-26"},
      {"AWatchOfWhatIsAtHandBeginsWithWhatIsThere",
       [](ContractClient& client) {
         ChangedBlock(client);
         const json event = client.Watch(Blocks(), From("0"), 1).at(0);
         return TextOf({event}) + " " + event["object"]["free"].dump();
       },
       "ADDED 10.55.0.0-26 9"},
      {"AWatchFromNowhereBeginsWithWhatIsThere",
       [](ContractClient& client) {
         const json changed = ChangedBlock(client);
         const json event = client.Watch(Blocks(), {{"timeoutSeconds", kSoon}}, 1).at(0);
         return TextOf({event}) + " " + event["object"]["free"].dump();
       },
       "ADDED 10.55.0.0-26 9"},
      {"WhatWasDeletedBeforeAWatchOfWhatIsAtHandIsNotTold",
       [](ContractClient& client) {
         client.Created(client.Block(0));
         client.Delete(PathOf(client.Block(0)));
         client.AwaitCache(client.Created(client.Block(1))["metadata"]["resourceVersion"]);
         return TextOf(client.Watch(Blocks(), From("0"), 1));
       },
       "ADDED 10.55.1.0-26"},
      {"APatchThatChangesNothingIsNotTold",
       [](ContractClient& client) {
         const json changed = ChangedBlock(client);
         client.Patch(PathOf(changed), {{"free", 9}});
         client.Created(client.Block(1));
         return TextOf(client.Watch(Blocks(), From(changed["metadata"]["resourceVersion"]), 1));
       },
       "ADDED 10.55.1.0-26"},
      {"WhatIsNotSelectedIsNotTold",
       [](ContractClient& client) {
         const std::string before = Before(client);
         client.Created(client.Block(0));
         client.Created(client.Block(1));
         Query query = From(before);
         const std::string name = client.Block(1)["metadata"]["name"];
         query.emplace_back("fieldSelector", "metadata.name=" + name);
         return TextOf(client.Watch(Blocks(), query, 1));
       },
       "ADDED 10.55.1.0-26"},
      {"TheMetadataAloneIsWatchedOnRequest",
       [](ContractClient& client) {
         const std::string before = Before(client);
         client.Created(client.Block());
         const json told = client.Watch(Blocks(), From(before), 1, k8sclient::kPartialMetadata).at(0)["object"];
         return told.value("kind", "") + (told.contains("spec") ? " spec" : "");
       },
       "PartialObjectMetadata"},
      {"AWatchOfANamespaceIsOfItAlone",
       [](ContractClient& client) {
         const std::string before = Before(client);
         client.Created(client.Allocation("kube-system"));
         const json here = client.Created(client.Allocation());
         const json one = client.Watch(CollectionPath(here), From(before), 1).at(0);
         const auto all = client.Watch(Allocations(), From(before), 2);
         return one["object"]["metadata"]["namespace"].get<std::string>() + " of " + std::to_string(all.size());
       },
       "default of 2"},
      {"AWatchEndsInItsTime",
       [](ContractClient& client) { return TextOf(client.Watch(Blocks(), From(Before(client), "1"), 1)); },
       ""},
      {"ABookmarkBeforeTheEndTellsOfWhatWasNotSelected",
       [](ContractClient& client) {
         Query query = From(Before(client), "5");
         query.emplace_back("allowWatchBookmarks", "true");
         query.emplace_back("fieldSelector",
                            "metadata.name=" + client.Created(client.Block(0))["metadata"]["name"].get<std::string>());
         std::string version;
         const auto meanwhile = [&] { version = client.Created(client.Block(1))["metadata"]["resourceVersion"]; };
         const auto events = client.Watch(Blocks(), query, 2, k8sclient::kJson, meanwhile);
         const std::string told = events.back()["object"]["metadata"]["resourceVersion"];
         return TextOf(events) + (IsOlder(told, version) ? " older" : "");
       },
       "ADDED 10.55.0.0-26, BOOKMARK"},
      {"AWatchFromAVersionThatIsForgottenIsToldSo",
       [](ContractClient& client) { return TextOf(client.Watch(Blocks(), From("1"), 1)); },
       "ERROR 410 Expired"},
      {"AWatchFromWhatIsYetToComeWaits",
       [](ContractClient& client) { return TextOf(client.Watch(Blocks(), From("900000000", "1"), 1)); },
       ""},
      {"AWatchFromWhatIsNoVersionIsRefused",
       [](ContractClient& client) { return TextOf(client.Watch(Blocks(), From("soon"), 1)); },
       "REFUSED 500"},
  };
  return kCases;
}

}  // namespace berth::e2e
