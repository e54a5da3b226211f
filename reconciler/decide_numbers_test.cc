// SPDX-License-Identifier: Apache-2.0
// When the controller writes a Node's address count, and what it does before it lowers one.
#include "reconciler/decide_numbers.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/decide_status.h"
#include "reconciler/numbers_world_test_setup.h"

namespace berth::reconciler {
namespace {

using Lines = NumbersWorld::Lines;

// A node that has shown 8 for a long time.
NumbersWorld Settled() {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Pass(30);
  return world;
}

TEST(Numbers, OfANewNodeAreWrittenOnceTheNodeWasSeenWithoutACountForThreeSeconds) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29");
  EXPECT_EQ(world.Pass(20), Lines{"3: node n1 ipv4=8"});
}

TEST(Numbers, AreRaisedAtOnce) {
  NumbersWorld world = Settled();
  world.Block("10.55.0.8/29");
  EXPECT_EQ(world.Pass(20), Lines{"0: node n1 ipv4=16"});
}

TEST(Numbers, AreNotWrittenWhileRequestingPodsComeAndGo) {
  NumbersWorld world = Settled();
  EXPECT_EQ(world.Bound("a").Pass(20), Lines());
  EXPECT_EQ(world.Gone("a").Pass(20), Lines());
}

TEST(Numbers, AreLoweredAfterFiveSecondsAndAListIfEnoughUnitsAreLeft) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  EXPECT_EQ(world.Pass(20), (Lines{"5: list pods of n1", "5: node n1 ipv4=8"}));
}

TEST(Numbers, AreNotLoweredForADipOfFourSeconds) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  EXPECT_EQ(world.Pass(3), Lines());
  EXPECT_EQ(world.Block("10.55.0.8/29").Pass(20), Lines());
}

TEST(Numbers, AreLoweredToTheHighestCountThatWasWantedInTheFiveSeconds) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Block("10.55.0.16/29").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  world.world().world.RemoveBlock("10.55.0.16-29");
  world.Pass(1);
  world.Block("10.55.0.8/29").Pass(1);
  world.world().world.RemoveBlock("10.55.0.8-29");
  EXPECT_EQ(world.Pass(3), (Lines{"1: list pods of n1", "1: node n1 ipv4=16"}));
}

TEST(Numbers, AreRemovedBeforeTheyAreLoweredIfFewUnitsAreLeft) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Bound("a").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  EXPECT_EQ(world.Pass(30),
            (Lines{"5: list pods of n1", "5: node n1 ipv4=none", "8: list pods of n1", "8: node n1 ipv4=8"}));
}

TEST(Numbers, AreWrittenAgainOnlyAfterTheWatchOfNodesHasShownTheAbsence) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Bound("a").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  world.watch_shows = false;
  EXPECT_EQ(world.Pass(60), (Lines{"5: list pods of n1", "5: node n1 ipv4=none"}));
  world.watch_shows = true;
  world.Shows("n1", std::nullopt);
  EXPECT_EQ(world.Pass(10), (Lines{"3: list pods of n1", "3: node n1 ipv4=8"}));
}

// The simulator found this with the seeds 771979 and 772199: if the watch never showed the count, an absence from
// before the count proves nothing.
TEST(Numbers, AreWrittenAgainOnlyAfterTheAbsenceAlsoIfTheWatchNeverShowedTheCount) {
  NumbersWorld world;
  world.watch_shows = false;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Bound("a").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  EXPECT_EQ(world.Pass(60), (Lines{"5: list pods of n1", "5: node n1 ipv4=none"}));
  world.watch_shows = true;
  world.Shows("n1", std::nullopt);
  EXPECT_EQ(world.Pass(10), (Lines{"3: list pods of n1", "3: node n1 ipv4=8"}));
}

TEST(Numbers, AreNotWrittenAgainBelowTheRequestsOfTheListedPods) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Bound("a").Pass(30);
  world.world().world.RemoveBlock("10.55.0.8-29");
  world.BoundUnseen("b", 8);
  Lines lines = world.Pass(9);
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[1], "5: node n1 ipv4=none");
  for (const std::string& line : lines) EXPECT_EQ(line.find("ipv4=8"), std::string::npos) << line;
  EXPECT_EQ(world.Shown(), "none");
}

// The scheduler has bound pods between the list and this decision, and the watch of pods has shown them.
TEST(Numbers, AreNotLoweredBelowTheRequestsThatTheWatchHasShownSinceTheList) {
  NumbersWorld world;
  for (const char* cidr : {"10.55.0.0/29", "10.55.0.8/29", "10.55.0.16/29"}) world.Block(cidr);
  world.Node("n1").Pass(30);
  world.world().world.RemoveBlock("10.55.0.16-29");
  world.Pass(4);
  world.world().state.pods_listed.insert_or_assign(
      "n1", ControllerState::PodsListed{.at = world.world().now.steady, .pods = {}});
  world.Bound("burst", 12);
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=none"}) << "four units would be left";
}

TEST(Numbers, AreLoweredByAListThatIsAtMostTwoSecondsOld) {
  const auto lowered_by = [](std::chrono::milliseconds age) {
    NumbersWorld world;
    world.Node("n1").Block("10.55.0.0/29").Block("10.55.0.8/29").Pass(30);
    world.world().world.RemoveBlock("10.55.0.8-29");
    world.Pass(4);
    world.world().state.pods_listed.insert_or_assign(
        "n1", ControllerState::PodsListed{.at = world.world().now.steady, .pods = {}});
    world.world().now.steady += age;
    return world.Pass(0);
  };
  EXPECT_EQ(lowered_by(kListValid), Lines{"0: node n1 ipv4=8"});
  EXPECT_EQ(lowered_by(kListValid + std::chrono::milliseconds(1)), Lines());
}

TEST(Numbers, OfADisabledPoolAreTheAddressesThatPodsHold) {
  NumbersWorld world = Settled();
  world.world().Block("10.55.0.0/29", "v4", {{1, "default/a a 0123456789ab-0123456789abcdef i=eth0 t=1"}});
  world.Bound("a").Disable().Pass(20);
  EXPECT_EQ(world.Shown(), "1");
  world.Gone("a").Pass(20);
  EXPECT_EQ(world.Shown(), "none");
}

TEST(Numbers, OfANodeThatIsNotReadyAreRemoved) {
  NumbersWorld world = Settled();
  for (int i = 2; i <= 10; ++i) world.Node("n" + std::to_string(i));
  world.Pass(10);
  world.Node("n1", /*is_ready=*/false);
  EXPECT_EQ(world.Pass(20), Lines{"5: node n1 ipv4=none"});
}

TEST(Numbers, StayIfMoreThanATenthOfTheNodesAreNotReady) {
  NumbersWorld world = Settled();
  for (int i = 2; i <= 9; ++i) world.Node("n" + std::to_string(i));
  world.Pass(10);
  world.Node("n1", /*is_ready=*/false);
  EXPECT_EQ(world.Pass(20), Lines());
}

TEST(Numbers, AreWrittenAgainAfterAnEditByHand) {
  NumbersWorld world = Settled();
  EXPECT_EQ(world.Shows("n1", 3).Pass(20), Lines{"0: node n1 ipv4=8"});
}

TEST(Numbers, AreWrittenAgainIfCapacityAndAllocatableDiffer) {
  NumbersWorld world = Settled();
  SeenNode node = *world.world().world.nodes.Find("n1");
  node.numbers["ipv4"] = {.capacity = 8, .allocatable = 5};
  world.world().world.nodes.PutShown(std::move(node), world.world().now.steady);
  EXPECT_EQ(world.Pass(20), Lines{"0: node n1 ipv4=8"});
}

TEST(Numbers, ThatAPersonRemovedAreWrittenAgainAfterAList) {
  NumbersWorld world = Settled();
  EXPECT_EQ(world.Shows("n1", std::nullopt).Pass(20), (Lines{"3: list pods of n1", "3: node n1 ipv4=8"}));
}

TEST(Numbers, ThatAPersonRaisedAreLoweredLikeOthers) {
  NumbersWorld world = Settled();
  EXPECT_EQ(world.Shows("n1", 1000).Pass(20), (Lines{"5: list pods of n1", "5: node n1 ipv4=8"}));
}

TEST(Numbers, OfANodeThatWasCreatedAgainAreWrittenAgain) {
  NumbersWorld world = Settled();
  world.RemoveNode("n1").Node("n1");
  EXPECT_EQ(world.Pass(20), Lines{"3: node n1 ipv4=8"});
}

// The watch of a new leader's pods begins where the previous leader was, and shows what came since a little later.
TEST(Numbers, OfANodeWithoutACountNeedAListWhileThePodsOfANewLeaderMayBeOld) {
  NumbersWorld world;
  world.world().state.pods_are_old_until = world.world().now.steady + std::chrono::seconds(120);
  world.Node("n1").Block("10.55.0.0/29").BoundUnseen("a", 9);
  world.Pass(10);
  EXPECT_EQ(world.Shown(), "none") << "its pods request more than it has";
}

TEST(Numbers, AreRemovedWithTheLastPoolOfTheirResource) {
  NumbersWorld world = Settled();
  world.world().world.RemoveBlock("10.55.0.0-29");
  world.world().world.pools.clear();
  EXPECT_EQ(world.Pass(20), Lines{"0: node n1 ipv4=none"});
}

TEST(Numbers, OfRequestingPodsAreRemovedFiveSecondsAfterAnEditOfTheResource) {
  NumbersWorld world = Settled();
  world.Bound("a").Pass(10);
  const json edited = {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}, {"resource", "x"}};
  world.world().Pool("v4", edited, {.is_ready = true});
  const Lines lines = world.Pass(20);
  EXPECT_THAT(lines, testing::Contains("5: node n1 ipv4=none"));
}

TEST(Numbers, AreRemovedIfCountingIsOff) {
  NumbersWorld world = Settled();
  world.world().decider = Decider({.reclaim = Reclaim::kOn, .counts = false});
  EXPECT_EQ(world.Pass(20), Lines{"0: node n1 ipv4=none"});
}

TEST(Numbers, OfAPoolWithAnotherNamespaceSelectorAreLeftOutAndItsConditionSaysSo) {
  NumbersWorld world = Settled();
  const auto counted = [&world] {
    const auto* condition =
        crds::FindCondition(world.world().world.pools.at("team").status.conditions, kCountedCondition);
    return condition == nullptr ? "never" : condition->status;
  };
  json spec = {{"subnet", "10.66.0.0/24"}, {"namespaceSelector", {{"matchLabels", {{"team", "a"}}}}}};
  world.world().Pool("team", spec, {.is_ready = true}).Space("default", {"v4", "team"});
  world.Pass(2);
  EXPECT_EQ(counted(), "False");
  spec["resource"] = "team";
  const auto status = world.world().world.pools.at("team").status;
  world.world().Pool("team", spec, {.is_ready = true});
  world.world().world.pools.at("team").status = status;
  world.Pass(2);
  EXPECT_EQ(counted(), "True");
}

TEST(Numbers, OfOneNodeAreWrittenOnceASecondWhilePodsWait) {
  NumbersWorld world = Settled();
  world.Waiting("w", {.node_selector = {{"no", "node"}}, .terms = {}, .tolerations = {}});
  world.Block("10.55.0.8/29");
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=16"});
  world.Block("10.55.0.16/29");
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=24"});
}

TEST(Numbers, OfOneNodeAreWrittenEveryTenSecondsIfEnoughUnitsAreLeft) {
  NumbersWorld world = Settled();
  world.Block("10.55.0.8/29");
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=16"});
  world.Block("10.55.0.16/29");
  EXPECT_EQ(world.Pass(20), Lines{"9: node n1 ipv4=24"});
}

TEST(Numbers, OfOneNodeAreWrittenEverySecondIfFewUnitsAreLeft) {
  NumbersWorld world = Settled();
  world.Block("10.55.0.8/29");
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=16"});
  world.Bound("a", 10).Block("10.55.0.16/29");
  EXPECT_EQ(world.Pass(20), Lines{"0: node n1 ipv4=24"});
}

TEST(Numbers, AreNotWrittenWhileTheNodeWaitsAfterAnError) {
  NumbersWorld world = Settled();
  world.world().state.backoff.Pause("Node/n1", std::chrono::seconds(5), world.world().now.steady);
  EXPECT_EQ(world.Block("10.55.0.8/29").Pass(4), Lines());
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=16"});
}

// Nodes n10 to n59, of which n10 to n58 show too much and need a list.
NumbersWorld FiftyNodes() {
  NumbersWorld world({{"subnet", "10.55.0.0/20"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  for (int i = 10; i < 60; ++i) {
    const std::string node = "n" + std::to_string(i);
    world.Node(node).Block("10.55." + std::to_string(i / 32) + "." + std::to_string(i % 32 * 8) + "/29", node);
  }
  world.Pass(30);
  for (int i = 10; i < 59; ++i) world.Shows("n" + std::to_string(i), 1000);
  world.Pass(1);
  return world;
}

// The lists that the controller wants now.
Lines ListsOf(NumbersWorld& world) {
  Lines lists;
  for (const std::string& line : world.world().Lines(/*relisted=*/false)) {
    if (line.starts_with("list pods ")) lists.push_back(line);
  }
  return lists;
}

// Lists are requests to a busy API server, and a Node without a count gets no pod.
TEST(Numbers, NeedAtMostFortyListsAtOnceAndFirstThoseOfNodesWithoutACount) {
  NumbersWorld world = FiftyNodes();
  world.Shows("n59", std::nullopt).Pass(2);
  const Lines lists = ListsOf(world);
  ASSERT_EQ(lists.size(), kListsMax);
  EXPECT_EQ(lists.front(), "list pods of n59");
}

TEST(Numbers, GetTheirListsInTurnHoweverLongATurnTakes) {
  NumbersWorld world = FiftyNodes();
  auto& now = world.world().now.steady;
  now += kLowerAfter;
  std::set<std::string> listed;
  for (int turn = 0; turn < 2; ++turn) {
    auto& pods_listed = world.world().state.pods_listed;
    pods_listed.clear();
    for (const std::string& line : ListsOf(world)) {
      const std::string node = line.substr(std::string("list pods of ").size());
      pods_listed[node] = {.at = now, .pods = {}};
      listed.insert(node);
    }
    static_cast<void>(ListsOf(world));  // sees the lists
    now += std::chrono::minutes(10);
  }
  EXPECT_EQ(listed.size(), 49U);
}

TEST(Numbers, OfAHundredNodesAreWrittenAtOnceAndThenTwentyASecond) {
  NumbersWorld world;
  for (int i = 0; i < 130; ++i) world.Node("n" + std::to_string(i));
  std::map<int, int> by_second;
  for (const std::string& line : world.Pass(8)) ++by_second[std::stoi(line)];
  EXPECT_EQ(by_second, (std::map<int, int>{{3, 100}, {4, 20}, {5, 10}}));
}

TEST(Numbers, AreWrittenFirstIfPodsWaitForThemThenIfTheyRise) {
  NumbersWorld world({{"subnet", "10.55.0.0/24"},
                      {"blockSize", 29},
                      {"allowEdgeAddresses", true},
                      {"nodeSelector", {{"matchLabels", {{"zone", "a"}}}}}});
  for (const char* name : {"n1", "n2", "n3"}) world.Node(name, true, {{"zone", "a"}});
  world.Block("10.55.0.0/29", "n1").Block("10.55.0.8/29", "n2").Pass(20);
  world.Node("n1").Block("10.55.0.16/29", "n2").Block("10.55.0.24/29", "n3");
  world.Waiting("w", {.node_selector = {{"no", "node"}}, .terms = {}, .tolerations = {}});
  EXPECT_EQ(world.Pass(0), (Lines{"0: node n3 ipv4=8", "0: node n2 ipv4=16", "0: node n1 ipv4=none"}));
}

TEST(Numbers, ThatPodsWaitForAreWrittenSoon) {
  NumbersWorld world({{"subnet", "10.55.0.0/20"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  for (int i = 0; i < 130; ++i) world.Node("n" + std::to_string(100 + i));
  world.Pass(8);
  world.Waiting("w", {.node_selector = {{"no", "node"}}, .terms = {}, .tolerations = {}});
  for (int i = 0; i < 130; ++i)
    world.Block("10.55." + std::to_string(i / 32) + "." + std::to_string(i % 32 * 8) + "/29",
                "n" + std::to_string(100 + i));
  std::size_t written = 0;
  for (const std::string& line : world.Pass(8)) written += line.ends_with("ipv4=8") ? 1 : 0;
  EXPECT_EQ(written, 130U);
}

}  // namespace
}  // namespace berth::reconciler
