// SPDX-License-Identifier: Apache-2.0
// Check: a healthy cluster, and the same cluster with one change.
#include "cli/check.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/report.h"
#include "cli/test_inventory.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ipam::Address At(const char* text) { return ipam::Address::Parse(text).value(); }

crds::Allocation AllocationOf(const char* pod, const char* address, const char* pool = "web") {
  crds::Allocation allocation;
  allocation.meta.name_space = "team-a";
  allocation.meta.name = std::string(pod) + "-x";
  allocation.pod = pod;
  allocation.addresses = {{.address = At(address), .pool = pool, .block = "10.55.0.0-26"}};
  return allocation;
}

// Two spaces have the same addresses, and each has a pod with 10.55.0.1 in one namespace.
void AddOtherSpaceAndAllocations(Inventory& inventory) {
  AddOtherSpace(inventory);
  inventory.blocks.back().pool = "blue";
  inventory.allocations = {AllocationOf("web-0", "10.55.0.1"),
                           AllocationOf("db-0", "10.55.0.2"),
                           AllocationOf("blue-0", "10.55.0.1", "blue")};
}

struct CheckCase {
  const char* name;
  std::function<void(Inventory&)> change;
  const char* kind;  // kind of the only finding; empty: no finding
  const char* about = "";
};

class CheckTable : public testing::TestWithParam<CheckCase> {};

TEST_P(CheckTable, FindsWhatIsWrongAndNothingElse) {
  const CheckCase& c = GetParam();
  Inventory inventory = HealthyInventory();
  c.change(inventory);
  const std::vector<Finding> findings = Check(inventory);
  if (*c.kind == '\0') {
    EXPECT_THAT(findings, IsEmpty()) << findings[0].kind << ": " << findings[0].message;
    return;
  }
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, c.kind);
  EXPECT_THAT(findings[0].object + " " + findings[0].address + " " + findings[0].message, HasSubstr(c.about));
  EXPECT_NE(findings[0].remedy, "");
}

const CheckCase kCases[] = {
    {"Healthy", [](Inventory&) {}, ""},
    {"PodIsGone", [](Inventory& i) { RemovePod(i, "web-0"); }, "pod-gone", "10.55.0.1 pod team-a/web-0"},
    {"PodHasEnded", [](Inventory& i) { PodOf(i, "web-0").phase = "Failed"; }, "pod-gone", "Failed"},
    {"PodIsGoneAndStatic",
     [](Inventory& i) {
       i.blocks[0].allocations[1] = HeldText("team-a/web-0", "0123456789abcdef", 'a');
       RemovePod(i, "web-0");
     },
     ""},
    {"MirrorPodHasItsHash",
     [](Inventory& i) {
       i.blocks[0].allocations[1] = HeldText("team-a/web-0", "0123456789abcdef", 'a');
       PodOf(i, "web-0").config_hash = "0123456789abcdef";
     },
     ""},
    {"APoolIsNotReady",
     [](Inventory& i) {
       i.pools[0].pool.ready = false;
       i.pools[0].pool.not_ready_reason = "InvalidRange";
     },
     "not-ready",
     "pool web is not Ready: InvalidRange"},
    {"APoolIsDisabled",
     [](Inventory& i) {
       i.pools[0].pool.ready = false;
       i.pools[0].pool.disabled = true;
     },
     ""},
    {"APodHasAReservedAddress",
     [](Inventory& i) { i.pools[0].pool.withheld = {{.first = At("10.55.0.2"), .last = At("10.55.0.4")}}; },
     "not-assignable",
     "10.55.0.2 pod team-a/db-0 has an address that pool web gives to no pod any more"},
    {"AnUnknownPodHasAReservedAddress",
     [](Inventory& i) {
       i.blocks[0].allocations[6] = HeldText("-/-", "-", 'c');
       i.pools[0].status.used = 3;
       i.pools[0].pool.withheld = {{.first = At("10.55.0.6"), .last = At("10.55.0.6")}};
     },
     "not-assignable",
     "10.55.0.6 an unknown pod has an address that pool web"},
    {"APodHasTheGatewaysAddress",
     [](Inventory& i) { i.pools[0].pool.gateway = At("10.55.0.1"); },
     "not-assignable",
     "10.55.0.1 pod team-a/web-0"},
    {"NoAgentHasCheckedAFreedAddress",
     [](Inventory& i) {
       i.blocks[0].allocations[3] = "~ t=1763699400000 f=0123456789ab-cccccccccccccccc " +
                                    HeldText("team-a/gone", "6f7d0c9e-9", 'c') + " ns=cni-c";
     },
     "not-checked",
     "10.55.0.3"},
    {"AnAgentIsAboutToCheckAFreedAddress",
     [](Inventory& i) {
       i.blocks[0].allocations[3] = "~ t=1763699600000 f=0123456789ab-cccccccccccccccc " +
                                    HeldText("team-a/gone", "6f7d0c9e-9", 'c') + " ns=cni-c";
     },
     ""},
    {"PodIsUnknown",
     [](Inventory& i) {
       i.blocks[0].allocations[6] = HeldText("-/-", "-", 'c');
       i.pools[0].status.used = 3;
     },
     ""},
    {"PodHasAnAddressWithoutEntry",
     [](Inventory& i) { AddPod(i, RunningPod("new", "6f7d0c9e-9", "10.55.0.9")); },
     "not-recorded",
     "team-a/new 10.55.0.9"},
    {"PodHasAnAddressThatRests",
     [](Inventory& i) { AddPod(i, RunningPod("new", "6f7d0c9e-9", "10.55.0.3")); },
     "not-recorded",
     "10.55.0.3"},
    {"PodHasAnAddressOfSomebodyElse",
     [](Inventory& i) { AddPod(i, RunningPod("new", "6f7d0c9e-9", "192.0.2.1")); },
     ""},
    {"HostNetworkPodHasAnAddressOfOurs",
     [](Inventory& i) {
       AddPod(i, RunningPod("new", "6f7d0c9e-9", "10.55.0.9"));
       PodOf(i, "new").host_network = true;
     },
     ""},
    {"PoolCannotBeRead",
     [](Inventory& i) {
       i.pools.clear();
       i.unreadable_pools = {"pool-uid"};
     },
     ""},
    {"PoolIsGoneAndAnotherCannotBeRead",
     [](Inventory& i) {
       i.pools.clear();
       i.unreadable_pools = {"uid-of-another"};
     },
     "stray-block",
     "the block's pool web"},
    {"PoolIsGone", [](Inventory& i) { i.pools.clear(); }, "stray-block", "the block's pool web"},
    {"NodeIsGone", [](Inventory& i) { i.nodes.clear(); }, "stray-block", "the block's node n1"},
    {"BlockLiesOutside",
     [](Inventory& i) { i.pools[0].pool.subnet = ipam::Prefix::Parse("10.56.0.0/24").value(); },
     "stray-block",
     "10.56.0.0/24"},
    {"BlocksOverlap",
     [](Inventory& i) {
       i.blocks.push_back(ipam::NewBlock(i.pools[0].pool, ipam::Prefix::Parse("10.55.0.32/27").value(), "n1"));
       i.pools[0].status.blocks = 2;
     },
     "duplicate",
     "10.55.0.32-27"},
    {"BlocksOfTwoSpacesMayOverlap",
     [](Inventory& i) {
       i.blocks.push_back(ipam::NewBlock(i.pools[0].pool, ipam::Prefix::Parse("10.55.0.32/27").value(), "n1"));
       i.blocks.back().space = "blue";
       i.pools[0].status.blocks = 2;
     },
     ""},
    {"PodsOfTwoSpacesMayHaveOneAddress", AddOtherSpace, ""},
    {"CountOfBlocksIsWrong", [](Inventory& i) { i.pools[0].status.blocks = 7; }, "count", "status.blocks is 7"},
    {"CountOfAddressesIsWrong", [](Inventory& i) { i.pools[0].status.used = 9; }, "count", "status.used is 9"},
    {"AllocationsAreComplete",
     [](Inventory& i) { i.allocations = {AllocationOf("web-0", "10.55.0.1"), AllocationOf("db-0", "10.55.0.2")}; },
     ""},
    {"AllocationIsMissing",
     [](Inventory& i) { i.allocations = {AllocationOf("web-0", "10.55.0.1")}; },
     "entry-without-allocation",
     "team-a/db-0"},
    {"AllocationIsLeft",
     [](Inventory& i) {
       i.allocations = {
           AllocationOf("web-0", "10.55.0.1"), AllocationOf("db-0", "10.55.0.2"), AllocationOf("old", "10.55.0.9")};
     },
     "allocation-without-entry",
     "old-x"},
    {"AllocationsOfTwoSpacesAreComplete", AddOtherSpaceAndAllocations, ""},
    {"AllocationIsMissingInOneOfTwoSpaces",
     [](Inventory& i) {
       AddOtherSpaceAndAllocations(i);
       i.allocations.pop_back();
     },
     "entry-without-allocation",
     "team-a/blue-0"},
    {"AllocationIsLeftInOneOfTwoSpaces",
     [](Inventory& i) {
       AddOtherSpaceAndAllocations(i);
       i.blocks.back().allocations.clear();
       i.pools[0].status.used = 2;
       RemovePod(i, "blue-0");
     },
     "allocation-without-entry",
     "blue-0-x"},
    {"ObjectIsUnreadable",
     [](Inventory& i) { i.unreadable = {{.code = ErrorCode::kInvalid, .message = "IPBlock b: used is 3"}}; },
     "unreadable",
     "used is 3"},
};
INSTANTIATE_TEST_SUITE_P(Table, CheckTable, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Check, FindsEachBlockThatALargerBlockContains) {
  Inventory inventory = HealthyInventory();
  for (const char* cidr : {"10.55.0.16/28", "10.55.0.32/28"}) {
    inventory.blocks.push_back(ipam::NewBlock(inventory.pools[0].pool, ipam::Prefix::Parse(cidr).value(), "n1"));
  }
  const std::vector<Finding> findings = Check(inventory);
  EXPECT_EQ(std::ranges::count(findings, "duplicate", &Finding::kind), 2);
}

TEST(Check, FindsTwoPodsWithOneAddress) {
  Inventory inventory = HealthyInventory();
  AddPod(inventory, RunningPod("twin", "6f7d0c9e-9", "10.55.0.1"));
  const std::vector<Finding> findings = Check(inventory);
  ASSERT_THAT(findings, SizeIs(2)) << "the twin has no entry either";
  EXPECT_EQ(findings[0].kind, "duplicate");
  EXPECT_EQ(findings[0].object, "pod/team-a/twin");
  EXPECT_EQ(findings[0].message, "pod team-a/web-0 has the same address");
  EXPECT_EQ(findings[1].kind, "not-recorded");
}

TEST(Check, NamesTheSpaceOfAnAddressToReleaseUnlessItIsTheDefault) {
  Inventory inventory = HealthyInventory();
  AddOtherSpace(inventory);
  inventory.pods.clear();
  std::vector<std::string> remedies;
  for (const Finding& finding : Check(inventory)) remedies.push_back(finding.remedy);
  EXPECT_THAT(
      remedies,
      testing::UnorderedElementsAre(
          "berthctl release 10.55.0.1", "berthctl release 10.55.0.2", "berthctl release 10.55.0.1 --space blue"));
}

TEST(Check, WhatOneOfTwoLooksFoundIsNotWrong) {
  Inventory before = HealthyInventory();
  before.pods.clear();
  Inventory after = HealthyInventory();
  RemovePod(after, "web-0");
  EXPECT_THAT(Check(before), SizeIs(2));
  const std::vector<Finding> both = InBoth(Check(before), Check(after));
  ASSERT_THAT(both, SizeIs(1));
  EXPECT_EQ(both[0].address, "10.55.0.1");
}

TEST(Report, NamesWhatCanBeReleased) {
  Inventory inventory = HealthyInventory();
  inventory.pods.clear();
  inventory.nodes.clear();
  const auto releases = ReadReport(ReportOf(inventory, Check(inventory)).dump());
  ASSERT_TRUE(releases.has_value()) << releases.error().message;
  ASSERT_THAT(*releases, SizeIs(2));
  EXPECT_EQ((*releases)[0].address, At("10.55.0.1"));
  EXPECT_EQ((*releases)[0].space, "default");
  EXPECT_FALSE((*releases)[0].is_sure);
}

TEST(Report, WhatIsNoneIsRefused) {
  for (const char* text : {"",
                           "[]",
                           "{}",
                           "{\"findings\": 3}",
                           "{\"findings\": [3]}",
                           "{\"findings\": [{\"kind\": \"pod-gone\", \"address\": \"here\"}]}"}) {
    const auto releases = ReadReport(text);
    ASSERT_FALSE(releases.has_value()) << text;
    EXPECT_EQ(releases.error().code, ErrorCode::kDecode);
    EXPECT_THAT(releases.error().details, HasSubstr("berthctl check -o json"));
  }
}

}  // namespace
}  // namespace berth::cli
