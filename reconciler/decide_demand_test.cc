// SPDX-License-Identifier: Apache-2.0
// Blocks that the controller creates for nodes on which waiting pods could run, and blocks that it deletes for these
// nodes.
#include "reconciler/decide_demand.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "crds/quantity.h"
#include "reconciler/decide_drain.h"
#include "reconciler/numbers_world_test_setup.h"

namespace berth::reconciler {
namespace {

using Lines = NumbersWorld::Lines;

std::size_t CountOf(const Lines& lines, const std::string& what) {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [&](const std::string& line) { return line.contains(what); }));
}

json PoolOf(int blocks) {
  return {{"subnet", "10.55.0.0/24"},
          {"blockSize", 29},
          {"allowEdgeAddresses", true},
          {"ranges", {"10.55.0.0-10.55.0." + std::to_string(blocks * 8 - 1)}}};
}
Placement On(const std::string& zone) { return {.node_selector = {{"zone", zone}}, .terms = {}, .tolerations = {}}; }

TEST(Demand, OfAPodThatFindsNoRoomMakesABlockAndRaisesTheAddressCount) {
  NumbersWorld world;
  world.Node("n1").Pass(10);
  const Lines lines = world.Waiting("w").Pass(10);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].starts_with("2: create block ")) << lines[0];
  EXPECT_EQ(lines[1], "2: node n1 ipv4=8");
}

TEST(Demand, IsNoneWhileANodeHasRoom) {
  NumbersWorld world;
  world.Node("n1").Node("n2").Block("10.55.0.0/29").Pass(10);
  EXPECT_EQ(world.Waiting("w").Pass(29), Lines());
}

TEST(Demand, GoesToTheNextNodeAfterThirtySecondsWithoutAPod) {
  NumbersWorld world;
  world.Node("n1").Node("n2").Node("n3").Pass(10);
  const Lines lines = world.Waiting("w").Pass(100);
  std::vector<int> when;
  for (const std::string& line : lines) {
    if (line.contains("create block")) when.push_back(std::stoi(line));
  }
  EXPECT_EQ(when, (std::vector{2, 32, 62})) << "each node is tried once";
  for (const char* node : {"n1", "n2", "n3"}) EXPECT_EQ(CountOf(lines, std::string("for ") + node), 1U) << node;
}

TEST(Demand, GoesToTheNodeThatWasTriedLongestAgo) {
  NumbersWorld world;
  world.Node("n1").Node("n2").Pass(10);
  const Lines first = world.Waiting("w").Pass(5);
  ASSERT_EQ(CountOf(first, "create block"), 1U);
  const bool was_n1 = CountOf(first, "for n1") == 1;
  world.Bound("fills-it", 8, was_n1 ? "n1" : "n2");
  const Lines second = world.Pass(20);
  ASSERT_EQ(CountOf(second, "create block"), 1U);
  EXPECT_EQ(CountOf(second, was_n1 ? "for n2" : "for n1"), 1U);
}

TEST(Demand, MakesBlocksOnlyForNodesOnWhichThePodMayRun) {
  NumbersWorld world;
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Node("n3", /*is_ready=*/false, {{"zone", "b"}}).Pass(10);
  const Lines lines = world.Waiting("w", On("b")).Pass(100);
  EXPECT_EQ(CountOf(lines, "create block"), 1U);
  EXPECT_EQ(CountOf(lines, "for n2"), 1U);
}

TEST(Demand, OfManyPodsMakesAsManyBlocksAsTheyNeed) {
  NumbersWorld world;
  world.Node("n1").Node("n2").Pass(10);
  for (int i = 0; i < 20; ++i) world.Waiting("w" + std::to_string(i));
  EXPECT_EQ(CountOf(world.Pass(5), "create block"), 3U);
}

TEST(Demand, MakesNoMoreBlocksThanANodeMayHave) {
  for (const std::size_t limit : {1U, 2U}) {
    json spec = PoolOf(30);
    spec["maxBlocksPerNode"] = limit;
    NumbersWorld world(spec);
    world.Node("n1").Pass(10);
    for (int i = 0; i < 100; ++i) world.Waiting("w" + std::to_string(i));
    EXPECT_EQ(CountOf(world.Pass(20), "create block"), limit);
  }
}

TEST(Demand, MakesNoBlockForMorePodsThanANodeMayRun) {
  NumbersWorld world;
  world.Node("n1", true, {}, 10).Node("n2", true, {}, 1).Bound("a", 1, "n2").Pass(10);
  for (int i = 0; i < 40; ++i) world.Waiting("w" + std::to_string(i));
  const Lines lines = world.Pass(20);
  EXPECT_EQ(CountOf(lines, "for n1"), 2U);
  EXPECT_EQ(CountOf(lines, "for n2"), 0U);
}

TEST(Demand, MakesABlockForAnotherNodeIfANodeWithFreeAddressesMayRunNoMorePods) {
  NumbersWorld world;
  world.Node("n1", true, {}, 1).Block("10.55.0.0/29", "n1").Node("n2").Pass(10);
  world.Waiting("w1").Waiting("w2");
  EXPECT_EQ(CountOf(world.Pass(20), "for n2"), 1U);
}

TEST(Demand, DoesNotCountDeletedBlocksAgainstTheLimitOfANode) {
  json spec = PoolOf(30);
  spec["maxBlocksPerNode"] = 1;
  NumbersWorld world(spec);
  world.Node("n1").Block("10.55.0.0/29", "n1", /*is_deleting=*/true).Pass(10);
  EXPECT_EQ(CountOf(world.Waiting("w").Pass(20), "create block"), 1U);
}

TEST(Demand, OfManyPodsMakesAtMostTwentyBlocksAtOnce) {
  NumbersWorld world(PoolOf(30));
  world.Node("n1").Node("n2").Node("n3").Pass(10);
  for (int i = 0; i < 300; ++i) world.Waiting("w" + std::to_string(i));
  world.Pass(1);
  EXPECT_EQ(CountOf(world.world().Lines(/*relisted=*/false), "create block"), kCreatedMax);
}

TEST(Demand, OfOnePodMakesTwentyBlocksOrNone) {
  for (const int units : {8 * 20, 8 * 20 + 1}) {
    NumbersWorld world(PoolOf(30));
    const std::size_t count = CountOf(world.Node("n1").Waiting("w", {}, units).Pass(20), "create block");
    EXPECT_EQ(count, units == 8 * 20 ? 20U : 0U);
  }
}

TEST(Demand, OfSeveralNodesMakesABlockForEach) {
  NumbersWorld world(PoolOf(8));
  for (int i = 0; i < 8; ++i) {
    const std::string number = std::to_string(i);
    world.Node("n" + number, true, {{"zone", number}}).Waiting("w" + number, On(number));
  }
  EXPECT_EQ(CountOf(world.Pass(20), "create block"), 8U) << "no two nodes get the same block";
}

TEST(Demand, OfAPodThatRequestsMoreThanABlockHasMakesAllItsBlocksForOneNode) {
  NumbersWorld world(PoolOf(30));
  world.Node("n1").Node("n2").Node("n3").Node("n4").Node("n5").Pass(10);
  const Lines lines = world.Waiting("w", {}, 24).Pass(3);
  EXPECT_EQ(CountOf(lines, "create block"), 3U);
  EXPECT_EQ(CountOf(lines, "ipv4=24"), 1U);
}

TEST(Demand, OfAPodThatRequestsMoreThanANodeCanGetMakesNoBlock) {
  for (const std::int64_t units : {std::int64_t{31}, std::int64_t{100'000}, crds::kUnitsMax}) {
    NumbersWorld world(PoolOf(3));
    world.Node("n1").Node("n2").Block("10.55.0.0/29").Pass(10);
    EXPECT_EQ(world.Waiting("w", {}, units).Pass(120), Lines()) << units << ": it takes no block from a node either";
    world.Gone("w").Bound("too-large", crds::kUnitsMax, "n2").Pass(10);
    EXPECT_EQ(world.Waiting("w", {}, units).Pass(120), Lines()) << units << ", and n2 lacks more than there is";
  }
}

// Blocks of seven addresses each: the first and the last address of the subnet are left out.
TEST(Demand, OfAPodThatNeedsTwoBlocksTakesTheMissingBlockFromAnotherNode) {
  NumbersWorld world({{"subnet", "10.55.0.0/28"}, {"blockSize", 29}});
  world.Node("n1", true, {{"zone", "b"}}).Node("n2").Block("10.55.0.0/29", "n2").Pass(70);
  const Lines lines = world.Waiting("w", On("b"), 8).Pass(28);
  EXPECT_EQ(CountOf(lines, "delete block"), 1U);
  EXPECT_EQ(CountOf(lines, "for n1"), 2U);
}

TEST(Demand, OfAPodThatLacksExactlyABlockTakesOneFromAnotherNode) {
  NumbersWorld world(PoolOf(3));
  world.Full("10.55.0.0/29", "n1").Node("n1", true, {{"zone", "b"}}).Node("n2").Block("10.55.0.8/29", "n2");
  world.Block("10.55.0.16/29", "n2").Pass(70);
  const Lines lines = world.Waiting("w", On("b"), 8).Pass(28);
  EXPECT_EQ(CountOf(lines, "delete block"), 1U);
  EXPECT_EQ(CountOf(lines, "for n1"), 1U);
}

TEST(Demand, OfAPodThatLacksTwoResourcesMakesNoBlockForOnlyOneOfThem) {
  NumbersWorld world;
  world.world().Pool("other", {{"subnet", "10.66.0.0/29"}, {"resource", "other"}}, {.is_ready = true});
  world.world().Space("default", {"v4", "other"});
  world.world().Block("10.66.0.0/29", "other", {{3, kHeldEntry}}, {.node = "n2"});
  world.Node("n1", true, {{"zone", "b"}}).Node("n2").Pass(10);
  EXPECT_EQ(CountOf(world.WaitingFor("w", {{"ipv4", 1}, {"other", 1}}, On("b")).Pass(20), "create block"), 0U);
  world.world().world.RemoveBlock("10.66.0.0-29");
  EXPECT_EQ(CountOf(world.Pass(5), "create block"), 2U);
}

TEST(Demand, OfAPodThatFitsOnAnotherNodeTakesNoBlockAway) {
  NumbersWorld world(PoolOf(3));
  world.Node("n1").Node("n2").Block("10.55.0.0/29", "n1").Bound("a", 1, "n1").Block("10.55.0.8/29", "n2").Pass(70);
  const Lines lines = world.Waiting("w", {}, 16).Pass(28);
  EXPECT_EQ(CountOf(lines, "delete block"), 0U);
  EXPECT_EQ(CountOf(lines, "for n2"), 1U);
}

TEST(Demand, OfAPodThatNeedsMoreBlocksThanANodeMayHaveMakesNone) {
  json spec = PoolOf(30);
  spec["maxBlocksPerNode"] = 2;
  NumbersWorld world(spec);
  world.Node("n1").Node("n2").Pass(10);
  EXPECT_EQ(world.Waiting("w", {}, 17).Pass(60), Lines());
  EXPECT_EQ(CountOf(world.Waiting("v", {}, 16).Pass(5), "create block"), 2U);
}

TEST(Demand, TakesAnEmptyBlockFromAnotherNodeIfAllBlocksExist) {
  NumbersWorld world(PoolOf(2));
  world.Node("n1").Node("n2").Node("n3", true, {{"zone", "b"}});
  world.Block("10.55.0.0/29", "n1").Block("10.55.0.8/29", "n2").Pass(30);
  const Lines lines = world.Waiting("w", On("b")).Pass(28);
  EXPECT_EQ(CountOf(lines, "delete block"), 1U);
  EXPECT_EQ(CountOf(lines, "for n3"), 1U);
  EXPECT_EQ(world.Shown("n3"), "8");
  const auto number = [&](const char* what) {
    return std::ranges::find_if(lines, [&](const std::string& line) { return line.contains(what); }) - lines.begin();
  };
  EXPECT_LT(number("ipv4=0"), number("delete block")) << "the number goes down before the block goes";
}

TEST(Demand, OfManyPodsTakesAsManyBlocksAtOnceAsTheyNeed) {
  NumbersWorld world(PoolOf(5));
  world.Node("n1").Node("n3", true, {{"zone", "b"}}).Full("10.55.0.0/29", "n3");
  for (const char* cidr : {"10.55.0.8/29", "10.55.0.16/29", "10.55.0.24/29", "10.55.0.32/29"}) world.Block(cidr, "n1");
  world.Pass(70);
  for (int i = 0; i < 24; ++i) world.Waiting("w" + std::to_string(i), On("b"));
  EXPECT_EQ(CountOf(world.Pass(14), "delete block"), 3U);
}

TEST(Demand, OfManyPodsThatRequestTwoUnitsTakesAsManyBlocksAtOnceAsTheyNeed) {
  NumbersWorld world(PoolOf(4));
  world.Node("n1").Node("n3", true, {{"zone", "b"}});
  for (const char* cidr : {"10.55.0.0/29", "10.55.0.8/29", "10.55.0.16/29", "10.55.0.24/29"}) world.Block(cidr, "n1");
  world.Pass(70);
  for (int i = 0; i < 12; ++i) world.Waiting("w" + std::to_string(i), On("b"), 2);
  EXPECT_EQ(CountOf(world.Pass(14), "delete block"), 3U);
}

TEST(Demand, OfTwoPodsThatLackTwoBlocksEachTakesTheBlocksOfOneAtOnce) {
  NumbersWorld world(PoolOf(4));
  world.Node("n1").Node("n3", true, {{"zone", "b"}});
  for (const char* cidr : {"10.55.0.0/29", "10.55.0.8/29", "10.55.0.16/29", "10.55.0.24/29"}) world.Block(cidr, "n1");
  world.Pass(70);
  EXPECT_EQ(CountOf(world.Waiting("w0", On("b"), 16).Waiting("w1", On("b"), 16).Pass(14), "delete block"), 2U);
}

// The pool of the other resource comes first, in the order of the UIDs.
TEST(Demand, TakesNoBlockOfAnotherResource) {
  NumbersWorld world(PoolOf(1));
  TestWorld& t = world.world();
  t.Pool("a", {{"subnet", "10.66.0.0/29"}, {"blockSize", 29}, {"resource", "other"}}, {.is_ready = true});
  t.Space("default", {"v4", "a"}).Block("10.66.0.0/29", "a", {}, {.node = "n1"});
  world.Node("n1").Node("n3", true, {{"zone", "b"}}).Block("10.55.0.0/29", "n1").Pass(30);
  const Lines lines = world.Waiting("w", On("b")).Pass(28);
  EXPECT_EQ(CountOf(lines, "delete block 10.55.0.0-29"), 1U);
  EXPECT_EQ(CountOf(lines, "delete block"), 1U);
}

TEST(Demand, KeepsOnlyTheBlockThatABoundPodOfTheNodeNeeds) {
  NumbersWorld world(PoolOf(5));
  world.Node("n1").Node("n3", true, {{"zone", "b"}}).Full("10.55.0.0/29", "n3");
  for (const char* cidr : {"10.55.0.8/29", "10.55.0.16/29", "10.55.0.24/29", "10.55.0.32/29"}) world.Block(cidr, "n1");
  world.Bound("without-address").Pass(80);
  for (int i = 0; i < 32; ++i) world.Waiting("w" + std::to_string(i), On("b"));
  EXPECT_EQ(CountOf(world.Pass(40), "delete block"), 3U);
}

TEST(Demand, OfAPodThatLacksTwoBlocksTakesBothOrNone) {
  for (const auto& [are_both_empty, units] : {std::pair(true, 16), {false, 16}, {true, 9}, {false, 9}}) {
    NumbersWorld world(PoolOf(3));
    world.Node("n1")
        .Node("n2")
        .Node("n3", true, {{"zone", "b"}})
        .Full("10.55.0.0/29", "n3")
        .Block("10.55.0.8/29", "n1");
    are_both_empty ? world.Block("10.55.0.16/29", "n2") : world.Full("10.55.0.16/29", "n2");
    world.Pass(70);
    EXPECT_EQ(CountOf(world.Waiting("w", On("b"), units).Pass(20), "delete block"), are_both_empty ? 2U : 0U);
  }
}

TEST(Demand, TakesNoBlockForANodeThatMayHaveNoMore) {
  json spec = PoolOf(2);
  spec["maxBlocksPerNode"] = 1;
  NumbersWorld world(spec);
  world.Node("n1", true, {{"zone", "b"}}).Full("10.55.0.0/29", "n1").Node("n2").Block("10.55.0.8/29", "n2").Pass(70);
  EXPECT_EQ(world.Waiting("w", On("b")).Pass(60), Lines());
}

TEST(Demand, TakesABlockForANodeThatMayHaveOneMore) {
  json spec = PoolOf(2);
  spec["maxBlocksPerNode"] = 2;
  NumbersWorld world(spec);
  world.Node("n1", true, {{"zone", "b"}}).Full("10.55.0.0/29", "n1").Node("n2").Block("10.55.0.8/29", "n2").Pass(70);
  EXPECT_EQ(CountOf(world.Waiting("w", On("b")).Pass(60), "delete block"), 1U);
}

TEST(Demand, TakesNoSecondBlockForANodeThatMayHaveOne) {
  json spec = PoolOf(2);
  spec["maxBlocksPerNode"] = 1;
  NumbersWorld world(spec);
  world.Node("n1", true, {{"zone", "b"}}).Node("n2").Block("10.55.0.8/29", "n2").Pass(70);
  EXPECT_EQ(world.Waiting("w", On("b"), 16).Pass(60), Lines());
}

TEST(Demand, KeepsALeavingBlockIfAPodIsBoundToItsNode) {
  NumbersWorld world(PoolOf(1));
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Block("10.55.0.0/29").Pass(30);
  world.Waiting("w", On("b")).Pass(11);
  world.Bound("late");
  const Lines lines = world.Pass(60);
  EXPECT_EQ(CountOf(lines, "delete block"), 0U);
}

TEST(Demand, CountsABlockAgainThatABoundPodNeeds) {
  NumbersWorld world(PoolOf(1));
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Block("10.55.0.0/29").Pass(30);
  world.Waiting("w", On("b")).Pass(11);
  world.Bound("late").Pass(60);
  EXPECT_EQ(world.Shown("n1"), "8");
}

// The controller has more blocks to change than one decision may change.
TEST(Demand, KeepsALeavingBlockUncountedWhileManyOtherBlocksAreDeleted) {
  NumbersWorld world(PoolOf(1));
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Block("10.55.0.0/29").Pass(30);
  world.Waiting("w", On("b"));
  for (int i = 0; i < 30 && world.Shown("n1") != "0"; ++i) world.Pass(0);
  ASSERT_EQ(world.Shown("n1"), "0") << "the block is leaving";
  TestWorld& t = world.world();
  t.Pool("a", {{"subnet", "10.56.0.0/16"}, {"blockSize", 29}, {"resource", ""}}, {.is_ready = true});
  t.Space("default", {"a", "v4"});
  t.world.nodes.PutShown({.name = "off", .uid = "u", .is_out_of_service = true}, t.now.steady);
  for (unsigned i = 0; i < 4 * kBlockChangesMax; ++i) {
    const std::string cidr = "10.56." + std::to_string(i / 32) + "." + std::to_string(i % 32 * 8) + "/29";
    t.Block(cidr, "a", {}, {.node = "off"});
  }
  const Lines lines = world.Pass(60);
  EXPECT_EQ(CountOf(lines, "delete block 10.56."), 4 * kBlockChangesMax);
  EXPECT_EQ(CountOf(lines, "delete block 10.55.0.0-29"), 1U);
  EXPECT_EQ(CountOf(lines, "node n1 ipv4=8"), 0U);
}

TEST(Demand, IsMetByTheBlockOfAnotherNodeIfTheApiServerRefusesTheLowerCountOfTheFirst) {
  NumbersWorld world(PoolOf(4));
  world.Node("n1").Full("10.55.0.0/29", "n1").Block("10.55.0.8/29", "n1");
  world.Node("n2").Full("10.55.0.16/29", "n2").Node("n3", true, {{"zone", "b"}}).Pass(10);
  TestWorld& t = world.world();
  Lines lines;
  for (int i = 0; i < 100 && lines.empty(); ++i) {
    if (i == 10) world.Block("10.55.0.24/29", "n2").Waiting("w", On("b"));
    t.state.backoff.Failed(NodeKey("n1"), {.code = ErrorCode::kInvalid, .message = "no"}, t.now.steady);
    for (const std::string& line : world.Pass(0)) {
      if (line.contains("delete block")) lines.push_back(line);
    }
  }
  EXPECT_EQ(lines, Lines{"0: delete block 10.55.0.24-29"});
}

TEST(Demand, GoesToTheNextNodeIfTheApiServerRefusesTheCountOfTheFirst) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Node("n2").Waiting("w");
  TestWorld& t = world.world();
  Lines lines;
  for (int i = 0; i < 400 && CountOf(lines, "create block") == 0; ++i) {
    t.state.backoff.Failed(NodeKey("n1"), {.code = ErrorCode::kInvalid, .message = "no"}, t.now.steady);
    lines = world.Pass(0);
  }
  EXPECT_EQ(CountOf(lines, "for n2"), 1U);
}

TEST(Demand, EndsWhenThePodsAreGone) {
  NumbersWorld world(PoolOf(1));
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Block("10.55.0.0/29").Pass(30);
  world.Waiting("w", On("b")).Pass(14);
  world.Gone("w").Pass(30);
  EXPECT_EQ(world.Shown("n1"), "8") << "the block counts again";
}

}  // namespace
}  // namespace berth::reconciler
