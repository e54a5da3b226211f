// SPDX-License-Identifier: Apache-2.0
// GET and LIST: which version the server returns, pages, selectors, and only metadata.
#include "e2e/contract/contract.h"

namespace berth::e2e {
namespace {

using k8sclient::Query;
using nlohmann::json;

// Creates blocks 0 to count - 1, and returns the version of the last block.
std::string CreateBlocks(ContractClient& client, int count) {
  std::string version;
  for (int i = 0; i < count; ++i) version = client.Created(client.Block(i))["metadata"]["resourceVersion"];
  return version;
}

Query Exact(const std::string& version) { return {{"resourceVersion", version}, {"resourceVersionMatch", "Exact"}}; }

std::string Token(const Said& list) { return list.body.value("/metadata/continue"_json_pointer, std::string()); }

std::string Selected(ContractClient& client, const std::string& terms) {
  CreateBlocks(client, 3);
  return client.Get(Blocks(), {{"fieldSelector", "spec.space=" + client.space() + terms}}).Names();
}

}  // namespace

const std::vector<ContractCase>& ReadCases() {
  static const std::vector<ContractCase> kCases = {
      {"AnObjectThatIsNotThereIsNamedInTheRefusal",
       [](ContractClient& client) {
         const json block = client.Block();
         const Said said = client.Get(PathOf(block));
         return said.Text() + (said.body["details"]["name"] == block["metadata"]["name"] ? " by name" : "");
       },
       "404 NotFound by name"},
      {"AKindThatIsNotInstalledNamesNoObject",
       [](ContractClient& client) {
         const Said said = client.Get("/apis/ipam.berth.dev/v1alpha1/ipthings/a");
         return std::to_string(said.status) +
                (said.body.value("/details/name"_json_pointer, "").empty() ? "" : " by name");
       },
       "404"},
      {"AnObjectIsReadAsItWasWritten",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         return std::string(client.Get(PathOf(block)).body == block ? "equal" : "different");
       },
       "equal"},
      {"AReadNotOlderThanAWriteFindsIt",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         return client.Get(PathOf(block), {{"resourceVersion", block["metadata"]["resourceVersion"]}}).Text();
       },
       "200"},
      {"AReadOfWhatIsAtHandFindsWhatIsOld",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         client.AwaitCache(block["metadata"]["resourceVersion"]);
         return client.Get(PathOf(block), {{"resourceVersion", "0"}}).Text();
       },
       "200"},
      {"ALastingListHoldsEveryWriteInTheOrderOfNames",
       [](ContractClient& client) {
         const std::string version = CreateBlocks(client, 3);
         const Said list = client.List(Blocks());
         return list.Names() + (IsOlder(list.version(), version) ? ", older" : "");
       },
       "10.55.0.0-26 10.55.1.0-26 10.55.2.0-26"},
      {"AListSaysItsKind",
       [](ContractClient& client) { return client.List(Blocks()).body.value("kind", ""); },
       "IPBlockList"},
      {"AListNotOlderThanAWriteHoldsIt",
       [](ContractClient& client) {
         const std::string version = CreateBlocks(client, 2);
         const Said list = client.List(Blocks(), NotOlderThan(version));
         return list.Names() + (IsOlder(list.version(), version) ? ", older" : "");
       },
       "10.55.0.0-26 10.55.1.0-26"},
      {"AVersionWithoutAWordHowIsNotOlder",
       [](ContractClient& client) {
         const std::string version = CreateBlocks(client, 2);
         return client.List(Blocks(), {{"resourceVersion", version}}).Names();
       },
       "10.55.0.0-26 10.55.1.0-26"},
      {"AListOfWhatIsAtHandHoldsWhatIsOld",
       [](ContractClient& client) {
         client.AwaitCache(CreateBlocks(client, 2));
         return client.List(Blocks(), {{"resourceVersion", "0"}}).Names();
       },
       "10.55.0.0-26 10.55.1.0-26"},
      {"AListNotOlderThanWhatIsYetToComeIsRefused",
       [](ContractClient& client) { return client.List(Blocks(), NotOlderThan("900000000")).Text(); },
       "504 Timeout ResourceVersionTooLarge"},
      {"AnExactListIsOfItsVersion",
       [](ContractClient& client) {
         const std::string version = CreateBlocks(client, 2);
         client.Created(client.Block(2));
         client.Delete(PathOf(client.Block(0)));
         const Said list = client.List(Blocks(), Exact(version));
         return list.Names() + (list.version() == version ? " as of then" : " as of another version");
       },
       "10.55.0.0-26 10.55.1.0-26 as of then"},
      {"AnExactListShowsObjectsAsTheyWere",
       [](ContractClient& client) {
         const std::string version = CreateBlocks(client, 1);
         client.Patch(PathOf(client.Block(0)), {{"free", 9}});
         return client.List(Blocks(), Exact(version)).body["items"][0]["free"].dump();
       },
       "0"},
      {"AnExactListOfWhatIsYetToComeIsRefused",
       [](ContractClient& client) { return client.List(Blocks(), Exact("900000000")).Text(); },
       "504 Timeout ResourceVersionTooLarge"},
      {"AWordHowNeedsAVersion",
       [](ContractClient& client) { return client.List(Blocks(), {{"resourceVersionMatch", "NotOlderThan"}}).Text(); },
       "422 Invalid resourceVersionMatch"},
      {"AVersionThatIsNoNumberIsRefused",
       [](ContractClient& client) { return client.List(Blocks(), NotOlderThan("soon")).Text(); },
       "400 BadRequest"},
      {"APageHoldsAsManyAsWereAskedFor",
       [](ContractClient& client) {
         CreateBlocks(client, 3);
         const Said list = client.List(Blocks(), {{"limit", "2"}});
         return list.Names() + (Token(list).empty() ? ", all" : ", and more");
       },
       "10.55.0.0-26 10.55.1.0-26, and more"},
      {"TheLastPageHoldsTheRest",
       [](ContractClient& client) {
         CreateBlocks(client, 3);
         const Said first = client.List(Blocks(), {{"limit", "2"}});
         const Said last = client.List(Blocks(), {{"limit", "2"}, {"continue", Token(first)}});
         return last.Names() + (Token(last).empty() ? ", all" : ", and more") +
                (last.version() == first.version() ? " of one version" : " of two versions");
       },
       "10.55.2.0-26, all of one version"},
      // After the page with the last selected object, a real server may return a token, because objects follow that are
      // not selected.
      {"PagesEnd",
       [](ContractClient& client) {
         CreateBlocks(client, 2);
         std::string names;
         std::string token;
         do {
           const Said page = client.List(Blocks(), {{"limit", "1"}, {"continue", token}});
           names += page.Names() + ";";
           token = Token(page);
         } while (!token.empty());
         return names.ends_with(";;") ? names.substr(0, names.size() - 1) : names;
       },
       "10.55.0.0-26;10.55.1.0-26;"},
      {"PagesShowWhatWasThereWhenTheFirstWasRead",
       [](ContractClient& client) {
         CreateBlocks(client, 3);
         const Said first = client.List(Blocks(), {{"limit", "2"}});
         client.Created(client.Block(3));
         client.Delete(PathOf(client.Block(2)));
         return client.List(Blocks(), {{"limit", "2"}, {"continue", Token(first)}}).Names();
       },
       "10.55.2.0-26"},
      {"APageOfWhatIsAtHandHoldsAll",
       [](ContractClient& client) {
         client.AwaitCache(CreateBlocks(client, 3));
         return client.List(Blocks(), {{"resourceVersion", "0"}, {"limit", "2"}}).Names();
       },
       "10.55.0.0-26 10.55.1.0-26 10.55.2.0-26"},
      {"APageNotOlderThanAWriteIsAPage",
       [](ContractClient& client) {
         Query query = NotOlderThan(CreateBlocks(client, 3));
         query.emplace_back("limit", "2");
         return client.List(Blocks(), query).Names();
       },
       "10.55.0.0-26 10.55.1.0-26"},
      {"ATokenThatIsNoneIsRefused",
       [](ContractClient& client) { return client.List(Blocks(), {{"limit", "2"}, {"continue", "none"}}).Text(); },
       "400 BadRequest"},
      {"AFieldIsSelectedByItsValue",
       [](ContractClient& client) { return Selected(client, ",spec.node=n1"); },
       "10.55.1.0-26"},
      {"AFieldIsSelectedByWhatItIsNot",
       [](ContractClient& client) { return Selected(client, ",spec.node!=n1"); },
       "10.55.0.0-26 10.55.2.0-26"},
      {"ANameIsSelected",
       [](ContractClient& client) {
         CreateBlocks(client, 2);
         const std::string name = client.Block(1)["metadata"]["name"];
         return client.Get(Blocks(), {{"fieldSelector", "metadata.name=" + name}}).Names();
       },
       "10.55.1.0-26"},
      {"AFieldThatIsLeftOutIsSelectedAsEmpty",
       [](ContractClient& client) {
         CreateBlocks(client, 2);
         json shared = client.Block(2);
         shared["spec"].erase("node");
         client.Created(shared);
         return client.List(Blocks(), {{"fieldSelector", "spec.node="}}).Names().empty()
                    ? std::string("none")
                    : client.Get(Blocks(), {{"fieldSelector", "spec.node=,spec.space=" + client.space()}}).Names();
       },
       "10.55.2.0-26"},
      {"AFieldThatCannotBeSelectedIsRefused",
       [](ContractClient& client) { return Selected(client, ",spec.cidr=10.55.0.0/26"); },
       "400 BadRequest"},
      {"TheMetadataAloneIsToldOnRequest",
       [](ContractClient& client) {
         const json block = client.Created(client.Block());
         const json told = client.Get(PathOf(block), {}, k8sclient::kPartialMetadata).body;
         return told.value("kind", "") + (told.contains("spec") ? " spec " : " ") +
                told["metadata"]["generation"].dump();
       },
       "PartialObjectMetadata 1"},
      {"TheMetadataAloneIsListedOnRequest",
       [](ContractClient& client) {
         CreateBlocks(client, 1);
         const json told = client.List(Blocks(), {}, k8sclient::kPartialMetadataList).body;
         const json& item = told["items"][0];
         return told.value("kind", "") + (item.contains("spec") ? " spec " : " ") +
                item["metadata"]["generation"].dump();
       },
       "PartialObjectMetadataList 1"},
      {"AListOfANamespaceIsOfItAlone",
       [](ContractClient& client) {
         const json here = client.Created(client.Allocation());
         client.Created(client.Allocation("kube-system"));
         const Query mine = {{"fieldSelector", "spec.pod=" + client.space()}};
         return std::to_string(client.Get(CollectionPath(here), mine).body["items"].size()) + " of " +
                std::to_string(client.Get(Allocations(), mine).body["items"].size());
       },
       "1 of 2"},
  };
  return kCases;
}

}  // namespace berth::e2e
