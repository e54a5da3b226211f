// SPDX-License-Identifier: Apache-2.0
// Objects that the CRDs' schemas and rules refuse, and the field in the refusal. e2e/crds tests all of the schemas and
// rules. This file has one case of each kind, and the rules about objects that berth writes.
#include "e2e/contract/contract.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

std::string Creation(ContractClient& client, json object, const char* pointer, const json& value) {
  object[json::json_pointer(pointer)] = value;
  return client.Create(object).Text();
}

std::string Change(ContractClient& client, const json& object, const json& patch) {
  return client.Patch(PathOf(client.Created(object)), patch).Text();
}

json Space(const ContractClient& client) {
  return {{"apiVersion", "ipam.berth.dev/v1alpha1"}, {"kind", "IPSpace"}, {"metadata", {{"name", client.space()}}}};
}

json Reservation(const ContractClient& client) {
  return {{"apiVersion", "ipam.berth.dev/v1alpha1"},
          {"kind", "IPReservation"},
          {"metadata", {{"name", client.space()}}},
          {"spec", {{"addresses", {"10.55.0.7"}}}}};
}

json Entries(int count) {
  json entries = json::object();
  for (int i = 0; i < count; ++i) entries[std::to_string(i)] = "! x";
  return entries;
}

json Accepted(const char* pool) {
  return {{"pool", pool}, {"uid", "u"}, {"subnet", "10.55.0.0/16"}, {"blockSize", 26}};
}

}  // namespace

const std::vector<ContractCase>& SchemaCases() {
  static const std::vector<ContractCase> kCases = {
      {"AFieldIsRequired",
       [](ContractClient& client) {
         json block = client.Block();
         block["spec"].erase("poolUID");
         return client.Create(block).Text();
       },
       "422 Invalid spec.poolUID"},
      {"ARequiredFieldIsNotPatchedAway",
       [](ContractClient& client) { return Change(client, client.Block(), {{"allocations", nullptr}}); },
       "422 Invalid allocations"},
      {"ATypeIsKept",
       [](ContractClient& client) { return Creation(client, client.Block(), "/free", "1"); },
       "422 Invalid free"},
      {"ANumberHasALeastValue",
       [](ContractClient& client) { return Creation(client, client.Block(), "/free", -1); },
       "422 Invalid free"},
      {"ANumberHasAGreatestValue",
       [](ContractClient& client) { return Change(client, client.Block(), {{"free", 257}}); },
       "422 Invalid free"},
      {"ATextHasALeastLength",
       [](ContractClient& client) { return Creation(client, client.Block(), "/agent", ""); },
       "422 Invalid agent"},
      {"ATextHasAGreatestLength",
       [](ContractClient& client) {
         return Creation(client, client.Allocation(), "/spec/interface", std::string(16, 'x'));
       },
       "422 Invalid spec.interface"},
      {"ATextHasAPattern",
       [](ContractClient& client) { return Change(client, client.Block(), {{"agent", "no-counter"}}); },
       "422 Invalid agent"},
      {"AnEntryHasAPattern",
       [](ContractClient& client) {
         return Change(client, client.Block(), {{"used", 1}, {"allocations", {{"0", "a\"b"}}}});
       },
       "422 Invalid allocations.0"},
      {"AnEntryHasAGreatestLength",
       [](ContractClient& client) {
         return Change(client, client.Block(), {{"used", 1}, {"allocations", {{"0", std::string(801, 'x')}}}});
       },
       "422 Invalid allocations.0"},
      {"AListHasAGreatestLength",
       [](ContractClient& client) { return Change(client, client.Block(), {{"standby", std::vector<int>(65, 1)}}); },
       "422 Invalid standby"},
      {"AnItemOfAListIsNamedByItsPlace",
       [](ContractClient& client) { return Change(client, client.Block(), {{"standby", {0, 256}}}); },
       "422 Invalid standby[1]"},
      {"AMapHasAGreatestSize",
       [](ContractClient& client) {
         return Change(client, client.Block(), {{"used", 256}, {"allocations", Entries(257)}});
       },
       "422 Invalid allocations"},
      {"AChoiceIsOneOfThose",
       [](ContractClient& client) { return Creation(client, client.Pool(), "/spec/affinity", "Pod"); },
       "422 Invalid spec.affinity"},
      {"TheStatusHasBoundsToo",
       [](ContractClient& client) {
         const json pool = client.Created(client.Pool());
         return client.Patch(PathOf(pool) + "/status", {{"status", {{"blocks", -1}}}}).Text();
       },
       "422 Invalid status.blocks"},

      {"ABlockIsNamedByWhatItIs",
       [](ContractClient& client) { return Creation(client, client.Block(), "/spec/cidr", "10.55.7.0/26"); },
       "422 Invalid"},
      {"ABlockCountsItsEntries",
       [](ContractClient& client) { return Change(client, client.Block(), {{"used", 1}}); },
       "422 Invalid used"},
      {"AnEntryLiesInTheBlock",
       [](ContractClient& client) {
         return Change(client, client.Block(), {{"used", 1}, {"allocations", {{"64", "! x"}}}});
       },
       "422 Invalid allocations"},
      {"AnOffsetHasNoLeadingZero",
       [](ContractClient& client) {
         return Change(client, client.Block(), {{"used", 1}, {"allocations", {{"07", "! x"}}}});
       },
       "422 Invalid allocations"},
      {"TheLastEntryOfABlockIsTaken",
       [](ContractClient& client) {
         return Change(client, client.Block(), {{"used", 1}, {"allocations", {{"63", "! x"}}}});
       },
       "200"},
      {"ABlockStaysWhatItIs",
       [](ContractClient& client) { return Change(client, client.Block(), {{"spec", {{"node", "n7"}}}}); },
       "422 Invalid spec"},
      {"ABlockLosesNoPartOfWhatItIs",
       [](ContractClient& client) { return Change(client, client.Block(), {{"spec", {{"node", nullptr}}}}); },
       "422 Invalid spec"},
      {"TheSubnetOfAPoolStays",
       [](ContractClient& client) { return Change(client, client.Pool(), {{"spec", {{"subnet", "10.56.0.0/16"}}}}); },
       "422 Invalid spec.subnet"},
      {"TheAffinityOfAPoolStays",
       [](ContractClient& client) { return Change(client, client.Pool(), {{"spec", {{"affinity", "Shared"}}}}); },
       "422 Invalid spec.affinity"},
      {"TheBlockSizeOfAPoolStays",
       [](ContractClient& client) { return Change(client, client.Pool(), {{"spec", {{"blockSize", 27}}}}); },
       "422 Invalid spec.blockSize"},
      {"ASubnetIsCanonical",
       [](ContractClient& client) { return Creation(client, client.Pool(), "/spec/subnet", "10.55.0.1/16"); },
       "422 Invalid spec.subnet"},
      {"AGatewayLiesInTheSubnet",
       [](ContractClient& client) { return Creation(client, client.Pool(), "/spec/gateway", "10.56.0.1"); },
       "422 Invalid spec.gateway"},
      {"ARangeLiesInTheSubnet",
       [](ContractClient& client) { return Creation(client, client.Pool(), "/spec/ranges", {"10.56.0.0/24"}); },
       "422 Invalid spec.ranges"},
      {"ASpaceCountsItsPools",
       [](ContractClient& client) {
         const json space = client.Created(Space(client));
         return client.Patch(PathOf(space) + "/status", {{"status", {{"accepted", {Accepted("web")}}}}}).Text();
       },
       "422 Invalid status.pools"},
      {"ASpaceTakesAPoolAndItsCount",
       [](ContractClient& client) {
         const json space = client.Created(Space(client));
         const json status = {{"accepted", {Accepted("web")}}, {"pools", 1}};
         return client.Patch(PathOf(space) + "/status", {{"status", status}}).Text();
       },
       "200"},
      {"AnAllocationStaysThatOfItsPod",
       [](ContractClient& client) { return Change(client, client.Allocation(), {{"spec", {{"pod", "b"}}}}); },
       "422 Invalid spec.pod"},
      {"AnAllocationIsNamedByItsAttachment",
       [](ContractClient& client) { return Creation(client, client.Allocation(), "/metadata/name", "web-0"); },
       "422 Invalid"},
      {"AnAllocationSaysItsAddressesTwice",
       [](ContractClient& client) { return Change(client, client.Allocation(), {{"spec", {{"ips", "10.55.0.8"}}}}); },
       "422 Invalid spec.ips"},
      {"AReservationIsOfAddresses",
       [](ContractClient& client) { return Creation(client, Reservation(client), "/spec/addresses", {"10.55.0.07"}); },
       "422 Invalid spec.addresses[0]"},
  };
  return kCases;
}

}  // namespace berth::e2e
