// SPDX-License-Identifier: Apache-2.0
// Counts: what each Node should show, case by case, and that kept counts equal new counts.
#include "reconciler/counts.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crds/quantity.h"
#include "ipam/seeded.h"
#include "reconciler/test_world.h"

namespace berth::reconciler {
namespace {

// "default/web-1 6f1d ..." as an agent writes it.
std::string EntryOf(const std::string& pod, const std::string& uid, const std::string& node = "") {
  return "default/" + pod + " " + (uid.empty() ? "-" : uid) + " 0123456789ab-0123456789abcdef i=eth0 t=1" +
         (node.empty() ? "" : " n=" + node);
}
const std::string kCooling = "~ t=" + std::to_string(kTestNowMs + 5000);
const std::string kCooled = "~ t=" + std::to_string(kTestNowMs - 1);

// Nodes n1 and n2, and the pool "v4" with blocks of eight addresses and the resource ipv4.
class CountsWorld {
 public:
  CountsWorld() {
    t_.world.knows_holders = true;
    Node("n1").Node("n2");
    Pool("v4", {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  }
  CountsWorld& Node(const std::string& name, const ipam::Labels& labels = {}) {
    t_.world.nodes.PutShown({.name = name, .uid = "uid-of-" + name, .is_ready = true, .labels = labels}, {});
    return *this;
  }
  CountsWorld& Pool(const std::string& name, json spec, bool is_ready = true, bool is_deleting = false) {
    t_.Pool(name, std::move(spec), {.is_deleting = is_deleting, .is_ready = is_ready});
    if (is_deleting) pools_.erase("uid-of-" + name);
    return *this;
  }
  CountsWorld& Block(const std::string& cidr, std::map<ipam::BlockOffset, std::string> entries = {},
                     const BlockTraits& traits = {}, const std::string& pool = "v4") {
    t_.Block(cidr, pool, std::move(entries), traits);
    return *this;
  }
  CountsWorld& Pod(SeenPod pod) {
    pod.name_space = "default";
    if (pod.uid.empty()) pod.uid = "uid-of-" + pod.name;
    t_.world.pods.Put(std::move(pod), {});
    return *this;
  }
  // A pod on n1 that requests one address.
  CountsWorld& Asking(const std::string& name) { return Pod({.name = name, .node = "n1", .requests = {{"ipv4", 1}}}); }
  CountsWorld& Remove(const std::string& pod) {
    t_.world.pods.Remove(PodKeyOf("default", pod), {});
    return *this;
  }
  CountsWorld& Leave(const std::string& block) {
    leaving_[block] = std::nullopt;
    return *this;
  }

  void Update() {
    pools_.clear();
    for (const auto& [name, seen] : t_.world.pools) {
      pools_.emplace(seen.meta.uid, CountedPool{.pool = *seen.pool, .generation = generation_});
      pools_.at(seen.meta.uid).pool.withheld = seen.status.withheld;
    }
    ++generation_;
    census_.Take(t_.world, pools_, t_.now.unix_ms);
    held_.Update(t_.world);
    counted_ = CountedPools(t_.world, pools_);
    counts_.Update(Scope());
    t_.world.pods.ForgetTouched();
  }
  // "usable+held-requested=number" of a node.
  std::string Of(const std::string& resource = "ipv4", const std::string& node = "n1") {
    Update();
    const NodeTally& all = counts_.Of(node);
    const auto found = all.find(resource);
    const Tally tally = found == all.end() ? Tally() : found->second;
    const auto number = tally.Number();
    return std::to_string(tally.usable) + "+" + std::to_string(tally.held) + "-" + std::to_string(tally.requested) +
           "=" + (number ? std::to_string(*number) : "none");
  }
  // The same, counted by an object that has seen nothing before.
  std::map<std::string, NodeTally> Anew() {
    HeldEntries held;
    held.Update(t_.world);
    Census census;
    census.Take(t_.world, pools_, t_.now.unix_ms);
    Counts counts;
    counts.Update({.world = t_.world, .census = census, .pools = counted_, .held = held, .leaving = leaving_});
    return counts.all();
  }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::int64_t FreeInBlocks() const {
    std::int64_t free = 0;
    for (const auto& [name, seen] : t_.world.blocks()) free += census_.FreeIn(name);
    return free;
  }
  TestWorld& world() { return t_; }

 private:
  Counts::Scope Scope() {
    return {.world = t_.world, .census = census_, .pools = counted_, .held = held_, .leaving = leaving_};
  }

  TestWorld t_;
  std::map<std::string, CountedPool> pools_;
  std::int64_t generation_ = 1;
  Census census_;
  HeldEntries held_;
  CountedPools counted_;
  LeavingBlocks leaving_;
  Counts counts_;
};

struct CountsCase {
  const char* name;
  std::function<void(CountsWorld&)> given;
  const char* want;  // "usable+held-requested=number" of n1
  const char* resource = "ipv4";
};
class Number : public testing::TestWithParam<CountsCase> {};

TEST_P(Number, OfANodeIsItsFreeAddressesAndThoseOfItsRequestingPods) {
  CountsWorld world;
  GetParam().given(world);
  EXPECT_EQ(world.Of(GetParam().resource), GetParam().want);
}

json SpecOf(std::initializer_list<std::pair<const std::string, json>> more) {
  json spec = {{"subnet", "10.66.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}};
  for (const auto& [key, value] : more) spec[key] = value;
  return spec;
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

TEST(Counts, OfAPoolWhoseNamespaceSelectorDiffersItIsSaid) {
  CountsWorld world;
  world.Pool("team", SpecOf({{"namespaceSelector", SelectorOf("a")}}));
  std::map<std::string, CountedPool> pools;
  for (const auto& [name, seen] : world.world().world.pools)
    pools.emplace(seen.meta.uid, CountedPool{.pool = *seen.pool});
  EXPECT_EQ(CountedPools(world.world().world, pools).of_mixed_namespaces(), std::set<std::string>{"uid-of-team"});
}

TEST(Counts, WithPodsCountsThoseOfTheListAndThoseOfTheWatchEachOnce) {
  CountsWorld world;
  world.Block("10.55.0.0/29").Asking("watched").Asking("both").Update();
  const SeenPod both{
      .name_space = "default", .name = "both", .uid = "uid-of-both", .node = "n1", .requests = {{"ipv4", 1}}};
  const SeenPod listed{.name_space = "default", .name = "listed", .uid = "u", .node = "n1", .requests = {{"ipv4", 3}}};
  EXPECT_EQ(world.counts().WithPods(world.world().world, "n1", {both, listed}).at("ipv4"),
            (Tally{.usable = 8, .held = 0, .requested = 5, .is_counted = true}));
}

TEST(Counts, WithPodsTakesAPodForEndedThatTheListSaysHasEnded) {
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

void ChangeAtRandom(ipam::SeededRandom& random) {
  CountsWorld world;
  for (const char* node : {"n1", "n2"}) {
    world.Block(std::string("10.55.0.") + (node[1] == '1' ? "0/29" : "8/29"), {}, {.node = node});
  }
  for (int step = 0; step < 300; ++step) {
    const std::string pod = "p" + std::to_string(random.Below(12));
    const std::string node = random.OneIn(2) ? "n1" : "n2";
    const std::string cidr = node == "n1" ? "10.55.0.0/29" : "10.55.0.8/29";
    switch (random.Below(4)) {
      case 0:
        world.Pod({.name = pod,
                   .uid = "uid-of-" + pod + std::to_string(random.Below(2)),
                   .node = random.OneIn(5) ? "" : node,
                   .is_terminal = random.OneIn(6),
                   .requests = random.OneIn(3) ? std::vector<UnitRequest>{} : std::vector<UnitRequest>{{"ipv4", 1}}});
        break;
      case 1:
        world.Remove(pod);
        break;
      default: {
        std::map<ipam::BlockOffset, std::string> entries;
        for (ipam::BlockOffset offset = 0; offset < 8; ++offset) {
          const std::string name = "p" + std::to_string(random.Below(12));
          if (random.OneIn(2)) entries[offset] = EntryOf(name, "uid-of-" + name + std::to_string(random.Below(2)));
        }
        world.Block(cidr, entries, {.node = node});
      }
    }
    world.Update();
    ASSERT_EQ(world.counts().all(), world.Anew()) << "after step " << step;
    std::int64_t left = 0;
    for (const auto& [name, tally] : world.counts().all()) {
      const auto number = tally.at("ipv4").Number();
      if (!number) continue;
      ASSERT_GE(*number, tally.at("ipv4").requested) << name;
      left += *number - tally.at("ipv4").requested;
    }
    ASSERT_LE(left, world.FreeInBlocks()) << "after step " << step;
  }
}

TEST(Counts, OfManyRandomChangesAreAsCountedAnew) {
  ipam::ForSeeds(4, [](ipam::SeededRandom& random) { ChangeAtRandom(random); });
}

TEST(Counts, RequestsThatAreTooLargeToSumAreTheLargestNumber) {
  CountsWorld world;
  world.Block("10.55.0.0/29");
  for (const char* name : {"a", "b"})
    world.Pod({.name = name, .node = "n1", .requests = {{.resource = "ipv4", .units = crds::kUnitsMax}}});
  EXPECT_EQ(world.Of(), "8+0-" + std::to_string(crds::kUnitsMax) + "=none");
}

}  // namespace
}  // namespace berth::reconciler
