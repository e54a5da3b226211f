// SPDX-License-Identifier: Apache-2.0
// Which nodes get a block because pods wait, when a block goes on to another node, and what a new block has in it.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/decide_blocks.h"
#include "reconciler/decide_demand.h"
#include "reconciler/numbers_world_test_setup.h"

namespace berth::reconciler {
namespace {

using Lines = NumbersWorld::Lines;

// A pool of one block with eight addresses.
const json kOneBlock = {{"subnet", "10.55.0.0/29"}, {"blockSize", 29}, {"allowEdgeAddresses", true}};

// The seconds of the lines that contain `what`.
std::vector<int> SecondsOf(const Lines& lines, const std::string& what) {
  std::vector<int> all;
  for (const std::string& line : lines) {
    if (line.contains(what)) all.push_back(std::stoi(line));
  }
  return all;
}

struct NodeCase {
  const char* name;
  std::int64_t pods_max;
  std::vector<Taint> taints;
  std::vector<Toleration> tolerations;
  std::size_t want;  // blocks
};
class DemandOfNode : public testing::TestWithParam<NodeCase> {};

TEST_P(DemandOfNode, MakesABlockIfAPodCanRunThere) {
  NumbersWorld world;
  world.world().world.nodes.PutShown(
      {.name = "n1", .uid = "u", .is_ready = true, .taints = GetParam().taints, .pods_max = GetParam().pods_max},
      world.world().now.steady);
  // A pod that requests nothing takes one of the node's places.
  world.world().world.pods.Put({.name_space = "default", .name = "a", .uid = "a", .node = "n1"}, {});
  world.Pass(10);
  world.Waiting("w", {.node_selector = {}, .terms = {}, .tolerations = GetParam().tolerations});
  EXPECT_EQ(SecondsOf(world.Pass(60), "create block").size(), GetParam().want);
}

const Taint kTaint = {.key = "for", .value = "db", .effect = "NoSchedule"};
const NodeCase kNodeCases[] = {
    {"WithPlaces", 2, {}, {}, 1},
    {"WhoseNumberOfPodsIsFull", 1, {}, {}, 0},
    {"WithATaint", 110, {kTaint}, {}, 0},
    {"WithATaintThatThePodTolerates", 110, {kTaint}, {{.key = "for", .exists = false, .value = "db", .effect = ""}}, 1},
};
INSTANTIATE_TEST_SUITE_P(Table, DemandOfNode, testing::ValuesIn(kNodeCases),
                         [](const auto& c) { return std::string(c.param.name); });

Placement In(const std::string& zone) { return {.node_selector = {{"zone", zone}}, .terms = {}, .tolerations = {}}; }

// No pod is placed: each waits for something else as well, such as a port of the node.
void ExpectVisitsOfThirtySeconds(const std::vector<Placement>& waiting) {
  NumbersWorld world(kOneBlock);
  world.Node("n1", true, {{"zone", "a"}}).Node("n2", true, {{"zone", "b"}}).Pass(10);
  for (std::size_t i = 0; i < waiting.size(); ++i) world.Waiting("w" + std::to_string(i), waiting[i]);
  const Lines lines = world.Pass(170);
  std::vector<std::string> visited;
  for (const std::string& line : lines) {
    if (line.contains("create block")) visited.push_back(line.substr(line.find("for ") + 4));
  }
  EXPECT_THAT(visited, testing::ElementsAre("n1", "n2", "n1", "n2", "n1"));
  const std::vector<int> counted = SecondsOf(lines, "ipv4=8");
  const std::vector<int> uncounted = SecondsOf(lines, "ipv4=none");
  ASSERT_EQ(counted.size(), visited.size());
  ASSERT_EQ(uncounted.size(), counted.size() - 1);
  for (std::size_t i = 0; i < uncounted.size(); ++i) {
    EXPECT_GE(uncounted[i] - counted[i], 30) << "visit " << i;
    EXPECT_LE(uncounted[i] - counted[i], 40) << "visit " << i;
  }
}

TEST(DemandOfTheOnlyBlock, VisitsEachNodeForThirtySeconds) { ExpectVisitsOfThirtySeconds({Placement()}); }

TEST(DemandOfTheOnlyBlock, VisitsEachNodeForThirtySecondsThoughAPodOfTheOtherNodeWaits) {
  ExpectVisitsOfThirtySeconds({In("a"), In("b")});
}

// Each new pod goes before it is placed, so the next new pod never had a block.
TEST(DemandOfTheOnlyBlock, ServesAnOldPodAgainThoughNewPodsOfAnotherNodeKeepComing) {
  NumbersWorld world(kOneBlock);
  world.Node("n1", true, {{"zone", "a"}}).Node("n2", true, {{"zone", "b"}}).Pass(10);
  world.Waiting("old", In("b"));
  std::size_t visits = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string name = "new" + std::to_string(i);
    visits += SecondsOf(world.Waiting(name, In("a")).Pass(45), "for n2").size();
    world.Gone(name);
  }
  EXPECT_GE(visits, 3U);
}

TEST(DemandOfTheOnlyBlock, DeletesTheBlockFiveSecondsAfterItsNodeStoppedCountingIt) {
  NumbersWorld world(kOneBlock);
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Block("10.55.0.0/29", "n1").Pass(30);
  world.Waiting("w", In("b"));
  const Lines lines = world.Pass(60);
  const std::vector<int> uncounted = SecondsOf(lines, "node n1 ipv4=none");
  const std::vector<int> deleted = SecondsOf(lines, "delete block");
  ASSERT_EQ(uncounted.size(), 1U);
  ASSERT_EQ(deleted.size(), 1U);
  EXPECT_EQ(std::chrono::seconds(deleted[0] - uncounted[0]), kUncountedFor);
}

// Lets pods wait that fit no node. Each has another placement.
void AddUnplaceable(NumbersWorld& world, const std::string& prefix, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string name = prefix + std::to_string(i);
    world.Waiting(name, In("nowhere-" + name));
  }
}

TEST(DemandOfManyGroups, ServesFiftyGroupsInADecisionAndTheNextGroupASecondLater) {
  for (const int others : {49, 50}) {
    NumbersWorld world;
    world.Node("n1").Pass(10);
    AddUnplaceable(world, "a", others);
    EXPECT_THAT(SecondsOf(world.Waiting("w").Pass(10), "create block"), testing::ElementsAre(others == 49 ? 2 : 3));
  }
}

TEST(DemandOfManyGroups, ServesTheLastOfManyGroupsThoughFiftyNewGroupsComeEachSecond) {
  NumbersWorld world;
  world.Node("n1", true, {{"zone", "b"}}).Pass(10);
  AddUnplaceable(world, "a", 450);
  world.Waiting("w", In("b"));
  std::size_t created = 0;
  for (int i = 0; i < 15; ++i) {
    AddUnplaceable(world, "b" + std::to_string(i) + "-", 50);
    created += SecondsOf(world.Pass(0), "create block").size();
  }
  EXPECT_EQ(created, 1U);
}

// The deletion of a block takes longer than the turn of a group.
TEST(DemandOfManyGroups, TakesABlockFromAnotherNodeWhileOtherGroupsHaveTheirTurn) {
  NumbersWorld world(kOneBlock);
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Block("10.55.0.0/29", "n1").Pass(30);
  AddUnplaceable(world, "a", 120);
  const Lines lines = world.Waiting("w", In("b")).Pass(30);
  EXPECT_EQ(SecondsOf(lines, "delete block").size(), 1U);
  EXPECT_EQ(SecondsOf(lines, "for n2").size(), 1U);
}

// The pools are in the order of their UIDs.
TEST(Demand, IsMetByThePoolOfTheResourceThatHasBlocksLeft) {
  NumbersWorld world;
  TestWorld& t = world.world();
  t.Pool("a", {{"subnet", "10.66.0.0/29"}, {"blockSize", 29}, {"resource", "ipv4"}}, {.is_ready = true});
  t.Space("default", {"v4", "a"}).Block("10.66.0.0/29", "a", {{3, kHeldEntry}}, {.node = "n2"});
  world.Node("n1").Node("n2", /*is_ready=*/false).Pass(10);
  EXPECT_EQ(SecondsOf(world.Waiting("w").Pass(10), "create block 10.55.").size(), 1U);
}

TEST(Demand, PassesOverNodesThatThePoolDoesNotAdmit) {
  NumbersWorld world({{"subnet", "10.55.0.0/24"}, {"nodeSelector", {{"matchLabels", {{"zone", "b"}}}}}});
  world.Node("n1").Node("n2", true, {{"zone", "b"}}).Pass(10);
  EXPECT_THAT(SecondsOf(world.Waiting("w").Pass(10), "for n2"), testing::ElementsAre(2));
}

TEST(Demand, MakesOnlyTheBlockOfTheResourceThatTheNodeLacks) {
  NumbersWorld world;
  world.world().Pool("other", {{"subnet", "10.66.0.0/29"}, {"resource", "other"}}, {.is_ready = true});
  world.world().Space("default", {"v4", "other"});
  world.Node("n1").Block("10.55.0.0/29", "n1").Pass(10);
  const Lines lines = world.WaitingFor("w", {{"ipv4", 1}, {"other", 1}}).Pass(10);
  EXPECT_EQ(SecondsOf(lines, "create block 10.66.0.0-29").size(), 1U);
  EXPECT_EQ(SecondsOf(lines, "create block").size(), 1U);
}

TEST(Demand, CountsTheBlocksOfANodeBehindABlockThatCannotBeRead) {
  NumbersWorld world({{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"maxBlocksPerNode", 1}});
  world.world().UnreadableBlock("10.55.0.0-29", "uid-of-v4");
  world.Node("n1").Full("10.55.0.8/29", "n1").Pass(10);
  EXPECT_THAT(SecondsOf(world.Waiting("w").Pass(10), "create block"), testing::IsEmpty());
}

TEST(Demand, OfDifferentNodesBeginsWithDifferentBlocks) {
  std::set<std::string> created;
  for (const char* node : {"n1", "n2", "n3", "n4", "n5"}) {
    NumbersWorld world;
    world.Node(node).Pass(10);
    for (const std::string& line : world.Waiting("w").Pass(3)) {
      if (line.contains("create block")) created.insert(line.substr(0, line.find(" for ")));
    }
  }
  EXPECT_GT(created.size(), 1U);
}

// Two groups lack blocks of one pool. One block is enough for the smaller group.
TEST(Demand, OfTwoGroupsTakesAsManyBlocksAsTheLargerOneNeeds) {
  for (const char* large : {"a", "b"}) {
    NumbersWorld world({{"subnet", "10.55.0.0/27"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
    world.Node("n1").Node("n2", true, {{"zone", "a"}}).Node("n3", true, {{"zone", "b"}});
    for (const char* cidr : {"10.55.0.0/29", "10.55.0.8/29", "10.55.0.16/29", "10.55.0.24/29"}) world.Block(cidr);
    world.Pass(70);
    for (const std::string zone : {"a", "b"}) {
      for (int i = 0; i < (zone == large ? 20 : 1); ++i) world.Waiting(zone + std::to_string(i), In(zone));
    }
    EXPECT_EQ(SecondsOf(world.Pass(14), "delete block").size(), 3U) << large;
  }
}

// Ten seconds after the first pod began to wait, the block begins to leave. Its node stops counting it some seconds
// later.
TEST(Demand, CountsTheTimeOfThePodThatHasWaitedLongest) {
  const std::vector<std::pair<std::string, std::string>> pods[] = {
      {{"z", "b"}, {"a", "b"}}, {{"a", "b"}, {"z", "b"}}, {{"z", "b"}, {"a", "c"}}, {{"z", "c"}, {"a", "b"}}};
  for (const auto& waiting : pods) {
    NumbersWorld world(kOneBlock);
    world.Node("n1").Node("n2", true, {{"zone", "b"}}).Node("n3", true, {{"zone", "c"}}).Block("10.55.0.0/29", "n1");
    world.Pass(28);
    world.Waiting(waiting[0].first, In(waiting[0].second)).Pass(5);
    world.Waiting(waiting[1].first, In(waiting[1].second));
    EXPECT_THAT(SecondsOf(world.Pass(20), "node n1 ipv4=none"), testing::ElementsAre(10))
        << waiting[0].first << waiting[0].second << waiting[1].first << waiting[1].second;
  }
}

TEST(Demand, GivesANewPodThirtySecondsForTheRoomThatIsThere) {
  NumbersWorld world;
  world.Node("n1", true, {{"zone", "a"}}).Block("10.55.0.0/29", "n1").Node("n2", true, {{"zone", "a"}});
  world.Waiting("old", In("nowhere")).Pass(100);
  EXPECT_THAT(SecondsOf(world.Waiting("new", In("a")).Pass(60), "for n2"), testing::ElementsAre(30));
}

TEST(Demand, MakesABlockWithoutCountingReservedAddressesAndAddsTheirEntries) {
  NumbersWorld world(kOneBlock);
  world.world().Reservation("printers", {"10.55.0.0-10.55.0.2"});
  world.Node("n1").Pass(10);
  world.Waiting("w").Pass(10);
  EXPECT_EQ(world.Shown(), "5");
  const auto& blocks = world.world().world.blocks();
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks.begin()->second.block->allocations,
            (std::map<ipam::BlockOffset, std::string>{{0, "! printers"}, {1, "! printers"}, {2, "! printers"}}));
}

}  // namespace
}  // namespace berth::reconciler
