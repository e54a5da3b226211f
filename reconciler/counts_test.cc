// SPDX-License-Identifier: Apache-2.0
// Counts: what each Node should show, case by case.
#include "reconciler/counts.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crds/quantity.h"
#include "reconciler/counts_world_test_setup.h"

namespace berth::reconciler {
namespace {

struct CountsCase {
  const char* name;
  std::function<void(CountsWorld&)> given;
  const char* want;  // "usable+held-requested=number" of n1
  const char* resource = "ipv4";
};
class Number : public testing::TestWithParam<CountsCase> {};

TEST_P(Number, IsTheSumOfFreeAddressesAndAddressesOfRequestingPods) {
  CountsWorld world;
  GetParam().given(world);
  EXPECT_EQ(world.Of(GetParam().resource), GetParam().want);
}

json SelectorOf(const std::string& value) { return {{"matchLabels", {{"zone", value}}}}; }

const CountsCase kCountsCases[] = {
    {"WithoutABlockIsZero", [](CountsWorld&) {}, "0+0-0=0"},
    {"OfAnEmptyBlockIsAllOfIt", [](CountsWorld& w) { w.Block("10.55.0.0/29"); }, "8+0-0=8"},
    {"OfTwoBlocksIsTheirSum", [](CountsWorld& w) { w.Block("10.55.0.0/29").Block("10.55.0.8/29"); }, "16+0-0=16"},
    {"LeavesOutBlocksOfOtherNodes", [](CountsWorld& w) { w.Block("10.55.0.0/29", {}, {.node = "n2"}); }, "0+0-0=0"},
    {"OfARequestingPodWithoutAnAddressYetStays",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Asking("a"); },
     "8+0-1=8"},
    {"OfARequestingPodWithItsAddressStays",
     [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}}).Asking("a"); },
     "7+1-1=8"},
    {"OfAPodThatRequestsNothingAndHasAnAddressIsLess",
     [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}}).Pod({.name = "a", .node = "n1"}); },
     "7+0-0=7"},
    {"OfAPodThatRequestsNothingAndHasNoAddressStays",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Pod({.name = "a", .node = "n1"}); },
     "8+0-0=8"},
    {"OfAHostNetworkPodStays",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Pod({.name = "a", .node = "n1", .is_host_network = true}); },
     "8+0-0=8"},
    {"CountsTheRequestOfAHostNetworkPodToo",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29").Pod({.name = "a", .node = "n1", .is_host_network = true, .requests = {{"ipv4", 1}}});
     },
     "8+0-1=8"},
    {"OfAPendingPodOnNoNodeStays",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Pod({.name = "a", .requests = {{"ipv4", 1}}}); },
     "8+0-0=8"},
    {"OfAPodOfAnotherNodeStays",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Pod({.name = "a", .node = "n2", .requests = {{"ipv4", 1}}}); },
     "8+0-0=8"},
    {"OfTwoInterfacesAndOneRequestCountsOneOfTheAddresses",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}, {1, EntryOf("a", "uid-of-a")}}).Asking("a");
     },
     "6+1-1=7"},
    {"OfOneInterfaceAndTwoRequestedCountsOneAddress",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}})
           .Pod({.name = "a", .node = "n1", .requests = {{"ipv4", 2}}});
     },
     "7+1-2=8"},
    {"OfASucceededPodFallsUntilItsAddressComesBack",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}})
           .Pod({.name = "a", .node = "n1", .is_terminal = true, .requests = {{"ipv4", 1}}});
     },
     "7+0-0=7"},
    {"OfAPodThatIsGoneFallsUntilItsAddressComesBack",
     [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}}); },
     "7+0-0=7"},
    {"OfAPodWhoseDelCameFirstStays", [](CountsWorld& w) { w.Block("10.55.0.0/29").Asking("a"); }, "8+0-1=8"},
    {"LeavesOutAddressesThatCool", [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, kCooling}}); }, "7+0-0=7"},
    {"CountsAddressesThatHaveCooled", [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, kCooled}}); }, "8+0-0=8"},
    {"CountsAddressesOnStandby",
     [](CountsWorld& w) { w.Block("10.55.0.0/29", {}, {.standby = {1, 2, 3}}); },
     "8+0-0=8"},
    {"LeavesOutReservedAddresses", [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, "! printers"}}); }, "7+0-0=7"},
    {"LeavesOutEntriesThatNobodyUnderstands", [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, "?"}}); }, "7+0-0=7"},
    {"MatchesAStaticPodByTheHashOfItsConfiguration",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "c0ffee")}})
           .Pod({.name = "a", .node = "n1", .config_hash = "c0ffee", .requests = {{"ipv4", 1}}});
     },
     "7+1-1=8"},
    {"MatchesAPodWithoutAKnownUidByNameNodeAndAddress",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "")}})
           .Pod({.name = "a",
                 .node = "n1",
                 .addresses = {ipam::Address::Parse("10.55.0.0").value()},
                 .requests = {{"ipv4", 1}}});
     },
     "7+1-1=8"},
    {"DoesNotMatchAPodByItsNameAlone",
     [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, EntryOf("a", "")}}).Asking("a"); },
     "7+0-1=7"},
    {"DoesNotMatchAnEarlierPodOfThatName",
     [](CountsWorld& w) { w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-the-first")}}).Asking("a"); },
     "7+0-1=7"},
    {"IsNoneWhereMoreIsRequestedThanThereIs",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Pod({.name = "a", .node = "n1", .requests = {{"ipv4", 9}}}); },
     "8+0-9=none"},
    {"IsExactlyWhatIsRequestedOnAFullNode",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Pod({.name = "a", .node = "n1", .requests = {{"ipv4", 8}}}); },
     "8+0-8=8"},
    {"OfABlockThatIsBeingDeletedCountsWhatItsPodsHold",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}}, {.is_deleting = true}).Asking("a");
     },
     "0+1-1=1"},
    {"OfABlockThatIsLeavingLeavesItOut",
     [](CountsWorld& w) { w.Block("10.55.0.0/29").Block("10.55.0.8/29").Leave("10.55.0.8-29"); },
     "8+0-0=8"},
    {"OfADisabledPoolIsWhatItsPodsHold",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}})
           .Asking("a")
           .Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"disabled", true}}, /*is_ready=*/false);
     },
     "0+1-1=1"},
    {"OfADisabledPoolWithAPodThatHasNoAddressYetIsNone",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29")
           .Asking("a")
           .Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"disabled", true}}, /*is_ready=*/false);
     },
     "0+0-1=none"},
    {"OfAPoolThatIsNotReadyIsNone",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29").Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}}, /*is_ready=*/false);
     },
     "0+0-0=none"},
    {"LeavesOutWhatAShrunkenPoolDoesNotGiveAnyMore",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29")
           .Pool("v4",
                 {{"subnet", "10.55.0.0/24"},
                  {"blockSize", 29},
                  {"allowEdgeAddresses", true},
                  {"ranges", {"10.55.0.0-10.55.0.2"}}});
     },
     "3+0-0=3"},
    {"OfAnExcludedAddressThatAPodHoldsCountsIt",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{7, EntryOf("a", "uid-of-a")}})
           .Asking("a")
           .Pool("v4",
                 {{"subnet", "10.55.0.0/24"},
                  {"blockSize", 29},
                  {"allowEdgeAddresses", true},
                  {"exclude", {"10.55.0.7"}}});
     },
     "7+1-1=8"},
    {"OfAPoolThatDoesNotAdmitTheNodeIsNone",
     [](CountsWorld& w) {
       w.Pool("far", SpecOf({{"resource", "far"}, {"nodeSelector", SelectorOf("b")}}))
           .Block("10.66.0.0/29", {}, {}, "far");
     },
     "0+0-0=none",
     "far"},
    {"OfAPoolThatAdmitsTheNodeByItsLabelsCounts",
     [](CountsWorld& w) {
       w.Node("n1", {{"zone", "b"}})
           .Pool("far", SpecOf({{"resource", "far"}, {"nodeSelector", SelectorOf("b")}}))
           .Block("10.66.0.0/29", {}, {}, "far");
     },
     "8+0-0=8",
     "far"},
    {"OfAPoolThatAdmitsTheNodeNoMoreIsWhatItsPodsHold",
     [](CountsWorld& w) {
       w.Pool("far", SpecOf({{"resource", "far"}, {"nodeSelector", SelectorOf("b")}}))
           .Block("10.66.0.0/29", {{0, EntryOf("a", "uid-of-a")}}, {}, "far")
           .Pod({.name = "a", .node = "n1", .requests = {{"far", 1}}});
     },
     "0+1-1=1",
     "far"},
    {"OfSeveralPoolsOfOneResourceIsTheirSum",
     [](CountsWorld& w) { w.Pool("more", SpecOf({})).Block("10.55.0.0/29").Block("10.66.0.0/29", {}, {}, "more"); },
     "16+0-0=16"},
    {"OfAnotherResourceIsAnotherNumber",
     [](CountsWorld& w) {
       w.Pool("second", SpecOf({{"resource", "second"}})).Block("10.55.0.0/29").Block("10.66.0.0/29", {}, {}, "second");
     },
     "8+0-0=8",
     "second"},
    {"OfAPoolWithoutAResourceIsNone",
     [](CountsWorld& w) { w.Pool("dark", SpecOf({{"resource", ""}})).Block("10.66.0.0/29", {}, {}, "dark"); },
     "0+0-0=0"},
    {"OfTheOtherFamilyIsAnotherNumber",
     [](CountsWorld& w) {
       w.Pool("v6", {{"subnet", "2001:db8::/120"}, {"blockSize", 126}, {"allowEdgeAddresses", true}})
           .Block("10.55.0.0/29")
           .Block("2001:db8::/126", {}, {}, "v6");
     },
     "4+0-0=4",
     "ipv6"},
    {"OfADualStackPodCountsEachFamilyByItself",
     [](CountsWorld& w) {
       w.Pool("v6", {{"subnet", "2001:db8::/120"}, {"blockSize", 126}, {"allowEdgeAddresses", true}})
           .Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}})
           .Block("2001:db8::/126", {{0, EntryOf("a", "uid-of-a")}}, {}, "v6")
           .Pod({.name = "a", .node = "n1", .requests = {{"ipv4", 1}, {"ipv6", 1}}});
     },
     "3+1-1=4",
     "ipv6"},
    {"OfADualStackPodThatRequestsOneFamilyFallsInTheOther",
     [](CountsWorld& w) {
       w.Pool("v6", {{"subnet", "2001:db8::/120"}, {"blockSize", 126}, {"allowEdgeAddresses", true}})
           .Block("2001:db8::/126", {{0, EntryOf("a", "uid-of-a")}}, {}, "v6")
           .Asking("a");
     },
     "3+0-0=3",
     "ipv6"},
    {"LeavesOutWhatIsFreeInSharedBlocks",
     [](CountsWorld& w) {
       w.Pool("shared", SpecOf({{"affinity", "Shared"}})).Block("10.66.0.0/29", {}, {.node = ""}, "shared");
     },
     "0+0-0=0"},
    {"CountsWhatARequestingPodHoldsInASharedBlock",
     [](CountsWorld& w) {
       w.Pool("shared", SpecOf({{"affinity", "Shared"}}))
           .Block("10.66.0.0/29", {{0, EntryOf("a", "uid-of-a", "n1")}}, {.node = ""}, "shared")
           .Asking("a");
     },
     "0+1-1=1"},
    {"OfPoolsWithDifferentNamespaceSelectorsLeavesThemOut",
     [](CountsWorld& w) {
       w.Pool("team", SpecOf({{"namespaceSelector", SelectorOf("a")}}))
           .Block("10.55.0.0/29")
           .Block("10.66.0.0/29", {}, {}, "team");
     },
     "8+0-0=8"},
    {"OfPoolsWithOneNamespaceSelectorCountsThem",
     [](CountsWorld& w) {
       w.Pool("team", SpecOf({{"namespaceSelector", SelectorOf("a")}, {"resource", "team"}}))
           .Block("10.66.0.0/29", {}, {}, "team");
     },
     "8+0-0=8",
     "team"},
    {"OfAPoolThatIsBeingDeletedIsWhatItsPodsHold",
     [](CountsWorld& w) {
       w.Block("10.55.0.0/29", {{0, EntryOf("a", "uid-of-a")}})
           .Asking("a")
           .Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}}, /*is_ready=*/false, /*is_deleting=*/true);
     },
     "0+1-1=1"},
};
INSTANTIATE_TEST_SUITE_P(Table, Number, testing::ValuesIn(kCountsCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Counts, ListPoolsWithADifferentNamespaceSelector) {
  CountsWorld world;
  world.Pool("team", SpecOf({{"namespaceSelector", SelectorOf("a")}}));
  std::map<std::string, CountedPool> pools;
  for (const auto& [name, seen] : world.world().world.pools)
    pools.emplace(seen.meta.uid, CountedPool{.pool = *seen.pool});
  EXPECT_EQ(CountedPools(world.world().world, pools).of_mixed_namespaces(), std::set<std::string>{"uid-of-team"});
}

TEST(Counts, WithPodsCountsEachPodOfTheListOrTheWatchOnce) {
  CountsWorld world;
  world.Block("10.55.0.0/29").Asking("watched").Asking("both").Update();
  const SeenPod both{
      .name_space = "default", .name = "both", .uid = "uid-of-both", .node = "n1", .requests = {{"ipv4", 1}}};
  const SeenPod listed{.name_space = "default", .name = "listed", .uid = "u", .node = "n1", .requests = {{"ipv4", 3}}};
  EXPECT_EQ(world.counts().WithPods(world.world().world, "n1", {both, listed}).at("ipv4"),
            (Tally{.usable = 8, .held = 0, .requested = 5, .is_counted = true}));
}

TEST(Counts, WithPodsDoesNotCountAPodThatHasEndedInTheList) {
  CountsWorld world;
  world.Block("10.55.0.0/29").Asking("a").Update();
  const SeenPod ended{.name_space = "default",
                      .name = "a",
                      .uid = "uid-of-a",
                      .node = "n1",
                      .is_terminal = true,
                      .requests = {{"ipv4", 1}}};
  EXPECT_EQ(world.counts().WithPods(world.world().world, "n1", {ended}).at("ipv4").requested, 0);
}

TEST(Counts, LeaveOutRequestsOfResourcesThatNoPoolHas) {
  CountsWorld world;
  SeenPod pod{.name = "a", .node = "n1", .requests = {{"ipv4", 1}}};
  for (int i = 0; i < 10'000; ++i) pod.requests.push_back({"x" + std::to_string(i), 1});
  world.Block("10.55.0.0/29").Pod(pod).Update();
  EXPECT_EQ(world.counts().Of("n1").size(), 1U);
  EXPECT_EQ(world.Of(), "8+0-1=8");
}

TEST(Counts, DoNotServeAWaitingPodThatRequestsVeryManyResources) {
  CountsWorld world;
  for (const std::size_t size : {kNeedsMax, kNeedsMax + 1}) {
    SeenPod pod{.name = std::to_string(size), .is_unschedulable = true, .placement = SharedPlacement({})};
    for (std::size_t i = 0; i < size; ++i) pod.requests.push_back({"x" + std::to_string(i), 1});
    world.Pod(std::move(pod));
  }
  world.Update();
  EXPECT_EQ(world.counts().waiting(), std::set<PodKey>{NamespacedName("default", std::to_string(kNeedsMax))});
}

TEST(Counts, CountRequestsThatAreTooLargeToSumAsTheLargestNumber) {
  CountsWorld world;
  world.Block("10.55.0.0/29");
  for (const char* name : {"a", "b"})
    world.Pod({.name = name, .node = "n1", .requests = {{.resource = "ipv4", .units = crds::kUnitsMax}}});
  EXPECT_EQ(world.Of(), "8+0-" + std::to_string(crds::kUnitsMax) + "=none");
}

}  // namespace
}  // namespace berth::reconciler
