// SPDX-License-Identifier: Apache-2.0
// Blocks that the controller deletes: when other nodes need them, and when their nodes are gone; and the many that
// stay.
#include "reconciler/decide_blocks.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;
using BlockLines = std::vector<std::string>;

// A pool of four blocks, and Ready nodes. What the controller decides about blocks and pools is done at once.
class BlocksWorld {
 public:
  explicit BlocksWorld(Reclaim mode = Reclaim::kOn, json spec = {{"subnet", "10.55.0.0/24"}}) {
    t_.decider = Decider({.reclaim = mode});
    t_.world.knows_holders = true;
    t_.Pool("web", std::move(spec), {.is_ready = true}).Space("default", {"web"});
  }
  // Another pool that shares the subnet.
  BlocksWorld& Twin(json spec = {{"subnet", "10.55.0.0/24"}}) {
    t_.Pool("twin", std::move(spec), {.is_ready = true}).Space("default", {"web", "twin"});
    return *this;
  }
  BlocksWorld& Nodes(int count) {
    for (int i = 1; i <= count; ++i) Node("n" + std::to_string(i));
    return *this;
  }
  BlocksWorld& Node(const std::string& name, bool is_ready = true, const ipam::Labels& labels = {}) {
    t_.world.nodes.Put({.name = name, .is_ready = is_ready, .labels = labels});
    return *this;
  }
  BlocksWorld& Block(const std::string& cidr, const std::string& node,
                     const std::map<ipam::BlockOffset, std::string>& entries = {}, const ipam::OffsetSet& standby = {},
                     bool is_deleting = false) {
    t_.Block(cidr, "web", entries, {.is_deleting = is_deleting, .standby = standby, .node = node});
    return *this;
  }
  BlocksWorld& PodWith(const std::string& node, const std::string& address) {
    t_.world.pods.Put({.name_space = "default",
                       .name = "has-" + address,
                       .uid = "u-2",
                       .node = node,
                       .addresses = {ipam::Address::Parse(address).value()},
                       .has_sandbox = true},
                      t_.now.steady);
    return *this;
  }
  BlocksWorld& WaitingPod(const std::string& node, const std::string& name = "late") {
    t_.world.pods.Put({.name_space = "default", .name = name, .uid = "u-1", .node = node}, t_.now.steady);
    return *this;
  }
  BlocksWorld& UnreadableBlock(const std::string& name) {
    t_.UnreadableBlock(name, "uid-of-web");
    return *this;
  }
  BlocksWorld& RemoveBlock(const std::string& name) {
    t_.world.RemoveBlock(name);
    return *this;
  }
  BlocksWorld& RemoveNode(const std::string& name) {
    t_.world.nodes.Remove(name);
    return *this;
  }
  // The API server has just refused to change the block.
  BlocksWorld& Refuse(const std::string& name) {
    t_.state.backoff.Failed(BlockKey(name), {.code = ErrorCode::kForbidden, .message = "x"}, t_.now.steady);
    return *this;
  }
  // The controller compares pods with blocks every ten seconds. Most waits are multiples of ten seconds too, so without
  // these three seconds a comparison would stand in for a decision that nobody asked for.
  void BeginEarly() {
    t_.now.unix_ms -= 3000;
    Pass(2);
  }
  // Lets `count` seconds pass. Like the controller, decides at once, after its own writes, and when the last decision
  // asks for another. Returns the changes of blocks in this time, each with its second.
  BlockLines Pass(int count) {
    BlockLines lines;
    has_written_ = true;
    for (int i = 0; i <= count; ++i) {
      if (has_written_ || IsDue()) {
        for (const std::string& line : RunPass()) lines.push_back(std::to_string(i) + ": " + line);
      }
      t_.now.steady += seconds(1);
      t_.now.unix_ms += 1000;
    }
    return lines;
  }
  [[nodiscard]] std::string Scarce() const {
    const auto* scarce = crds::FindCondition(t_.world.pools.at("web").status.conditions, crds::kScarceCondition);
    return scarce == nullptr ? "never" : scarce->status;
  }

 private:
  [[nodiscard]] bool IsDue() const {
    return (wake_steady_ && *wake_steady_ <= t_.now.steady) || (wake_unix_ms_ && *wake_unix_ms_ <= t_.now.unix_ms);
  }
  BlockLines RunPass() {
    const Decision decision = t_.Decide(/*relisted=*/false);
    has_written_ = false;
    wake_steady_ = decision.wake_steady;
    wake_unix_ms_ = decision.wake_unix_ms;
    BlockLines lines;
    for (const Action& action : decision.actions) {
      if (const auto* status = std::get_if<SetPoolStatus>(&action)) {
        t_.world.pools.at(status->pool).status = status->status;
        has_written_ = true;
        continue;
      }
      const bool is_block = std::holds_alternative<DeleteBlock>(action) || std::holds_alternative<ChangeBlock>(action);
      if (is_block) lines.push_back(std::visit(ActionText(), action));
      has_written_ = has_written_ || is_block;
      if (const auto* deletion = std::get_if<DeleteBlock>(&action)) t_.world.RemoveBlock(deletion->block->name);
      if (const auto* change = std::get_if<ChangeBlock>(&action)) t_.world.PutBlock(SeenAs(change->after));
    }
    return lines;
  }

  TestWorld t_;
  bool has_written_ = false;
  std::optional<SteadyTime> wake_steady_;
  std::optional<std::int64_t> wake_unix_ms_;
};

// Checks that every change came between second `from` and second `to`: the jitter depends on the block's name.
std::string WithoutTimes(const BlockLines& lines, int from, int to) {
  std::string text;
  for (const std::string& line : lines) {
    const int at = std::stoi(line);
    EXPECT_TRUE(from <= at && at <= to) << line;
    text += (text.empty() ? "" : "; ") + line.substr(line.find(": ") + 2);
  }
  return text;
}

struct BlocksCase {
  const char* name;
  std::function<void(BlocksWorld&)> given;
  int seconds;  // how long the test waits
  const char* want;
  int from = 0;  // second in which it is done, at the earliest and at the latest
  int to = 0;
};
class BlocksAreGivenBack : public testing::TestWithParam<BlocksCase> {};

TEST_P(BlocksAreGivenBack, WhenOtherNodesNeedThem) {
  BlocksWorld world;
  world.BeginEarly();
  GetParam().given(world);
  EXPECT_EQ(WithoutTimes(world.Pass(GetParam().seconds), GetParam().from, GetParam().to), GetParam().want);
}

constexpr int kHour = 3600;
const std::string kRestsUntil100 = "~ t=1800000100000";

const BlocksCase kBlocksCases[] = {
    {"IdleNodesKeepTheirsWhileThereIsOneForEach",
     [](BlocksWorld& w) { w.Nodes(4).Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "n2"); },
     kHour,
     ""},
    {"AnEmptyOneGoesAfterItsRest",
     [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1"); },
     kHour,
     "delete block 10.55.0.0-26",
     60,
     75},
    {"OneThatCannotGoIsNotOnItsWay",
     [](BlocksWorld& w) {
       w.Nodes(5)
           .Node("n1", /*is_ready=*/false)
           .Block("10.55.0.0/26", "n1", {}, {}, /*is_deleting=*/true)
           .PodWith("n1", "10.55.0.7")
           .Block("10.55.0.64/26", "n2")
           .Block("10.55.0.128/26", "n3", {{3, kHeldEntry}})
           .Block("10.55.0.192/26", "n4", {{3, kHeldEntry}})
           .WaitingPod("n5");
     },
     kHour,
     "delete block 10.55.0.64-26",
     10,
     75},
    {"OneInUseStays", [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1", {{3, kHeldEntry}}); }, kHour, ""},
    // Somebody removed the pod's entry while no agent ran.
    {"OneOfWhichAPodHasAnAddressWithoutAnEntryStays",
     [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1").PodWith("n1", "10.55.0.7"); },
     kHour,
     ""},
    {"OneOfWhichAPodOfAnotherNodeHasAnAddressGoes",
     [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1").PodWith("n2", "10.55.0.7"); },
     kHour,
     "delete block 10.55.0.0-26",
     60,
     75},
    {"OneOfWhichAPodHasAnAddressWithoutAnEntryDoesNotProtectTheNext",
     [](BlocksWorld& w) {
       w.Nodes(10).Block("10.55.0.0/26", "n1").PodWith("n1", "10.55.0.7").Block("10.55.0.64/26", "n2");
     },
     kHour,
     "delete block 10.55.0.64-26",
     60,
     75},
    {"OneThatCannotBeReadDoesNotProtectTheNext",
     [](BlocksWorld& w) { w.Nodes(10).UnreadableBlock("10.55.0.0-26").Block("10.55.0.64/26", "n1"); },
     kHour,
     "delete block 10.55.0.64-26",
     60,
     75},
    {"OneThatNobodyUnderstandsStays",
     [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1", {{3, "?"}}); },
     kHour,
     ""},
    {"OneWithAddressesOnStandbyStays",
     [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1", {}, {4}); },
     kHour,
     ""},
    {"CoolingAddressesAreNoRest",
     [](BlocksWorld& w) { w.Nodes(10).Block("10.55.0.0/26", "n1", {{3, kRestsUntil100}}); },
     kHour,
     "delete block 10.55.0.0-26",
     160,
     175},
    {"OfSeveralOnlyAsManyGoAsAreNeededTheLongestEmptyFirst",
     [](BlocksWorld& w) {
       w.Nodes(2)
           .Block("10.55.0.0/26", "n1", {{3, kHeldEntry}})
           .Block("10.55.0.64/26", "n1", {{3, kRestsUntil100}})
           .Block("10.55.0.128/26", "n1")
           .Block("10.55.0.192/26", "n1", {{3, kHeldEntry}});
     },
     kHour,
     "delete block 10.55.0.128-26",
     60,
     75},
    {"OneThatIsOnItsWayIsEnough",
     [](BlocksWorld& w) {
       w.Nodes(2)
           .Block("10.55.0.0/26", "n1", {{3, kHeldEntry}})
           .Block("10.55.0.64/26", "n1", {}, {}, /*is_deleting=*/true)
           .Block("10.55.0.128/26", "n1")
           .Block("10.55.0.192/26", "n1", {{3, kHeldEntry}});
     },
     30,
     "block 10.55.0.64-26 finalizers=[]",
     0,
     30},
    {"OneThatIsOnItsWayAndOneThatNobodyHasAreEnoughForTwo",
     [](BlocksWorld& w) {
       w.Nodes(3)
           .Block("10.55.0.0/26", "n1", {{3, kHeldEntry}})
           .Block("10.55.0.64/26", "n1", {}, {}, /*is_deleting=*/true)
           .Block("10.55.0.128/26", "n1");
     },
     kHour,
     "block 10.55.0.64-26 finalizers=[]",
     0,
     30},
    {"APodThatWaitsTenSecondsGetsOneAtOnce",
     [](BlocksWorld& w) {
       w.Nodes(2)
           .Block("10.55.0.0/26", "n1")
           .Block("10.55.0.64/26", "n1")
           .Block("10.55.0.128/26", "n1")
           .Block("10.55.0.192/26", "n1")
           .WaitingPod("n2");
     },
     59,
     "delete block 10.55.0.0-26",
     10,
     10},
    {"OfSeveralPodsThatWaitOnANodeTheFirstCounts",
     [](BlocksWorld& w) {
       w.Nodes(2)
           .Block("10.55.0.0/26", "n1")
           .Block("10.55.0.64/26", "n1")
           .Block("10.55.0.128/26", "n1")
           .Block("10.55.0.192/26", "n1")
           .WaitingPod("n2", "b")
           .Pass(3);
       w.WaitingPod("n2", "a").WaitingPod("n2", "c");
     },
     59,
     "delete block 10.55.0.0-26",
     6,
     6},
    {"APodThatWaitsWhereThereIsRoomWaitsForSomethingElse",
     [](BlocksWorld& w) {
       w.Nodes(2)
           .Block("10.55.0.0/26", "n1")
           .Block("10.55.0.64/26", "n1")
           .Block("10.55.0.128/26", "n1")
           .Block("10.55.0.192/26", "n2", {{3, kHeldEntry}})
           .WaitingPod("n2");
     },
     kHour,
     ""},
    {"NodesThatAreNotReadyNeedNone",
     [](BlocksWorld& w) {
       w.Node("n1").Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "n1").Block("10.55.0.128/26", "n1");
       w.Block("10.55.0.192/26", "n1").Node("n2", false);
     },
     kHour,
     ""},
    {"ANodeThatIsGoneKeepsNothing",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone").Block("10.55.0.64/26", "n1"); },
     kHour,
     "delete block 10.55.0.0-26",
     300,
     300},
    {"NotEvenWhatItHadOnStandby",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone", {}, {4, 5}); },
     kHour,
     "block 10.55.0.0-26 standby=[] if gone is gone; delete block 10.55.0.0-26",
     300,
     301},
    {"AndWhatItHadOnStandbyDoesNotHoldUpADeletion",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone", {}, {4}, /*is_deleting=*/true); },
     kHour,
     "block 10.55.0.0-26 standby=[] if gone is gone; block 10.55.0.0-26 finalizers=[]",
     300,
     306},
    {"NorWhatNobodyCanRead",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone", {{0, "x"}}); },
     kHour,
     "block 10.55.0.0-26 entries=[0:~ t=1800000360000] if gone is gone; delete block 10.55.0.0-26",
     300,
     361},
    {"NorWhatNobodyCanReadBehindACoolingAddress",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone", {{0, "~ t=1"}, {1, "x"}}); },
     kHour,
     "block 10.55.0.0-26 entries=[0:~ t=1,1:~ t=1800000360000] if gone is gone; delete block 10.55.0.0-26",
     300,
     361},
    {"NorWhatRestsForEver",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone", {{0, "~ t=9223372036854775807"}}); },
     kHour,
     "delete block 10.55.0.0-26",
     300,
     300},
    {"NorWhatItsAgentShouldHaveLookedAt",
     [](BlocksWorld& w) {
       w.Nodes(1).Block(
           "10.55.0.0/26",
           "gone",
           {{0,
             "~ t=1 f=0123456789ab-0123456789abcdef default/web u 0123456789ab-0123456789abcdef i=eth0 t=1 "
             "ns=cni-1"}});
     },
     kHour,
     "block 10.55.0.0-26 entries=[0:~ t=1 f=0123456789ab-0123456789abcdef] if gone is gone; delete block 10.55.0.0-26",
     300,
     301},
    {"ButItsEntriesAreFreedFirst",
     [](BlocksWorld& w) { w.Nodes(1).Block("10.55.0.0/26", "gone", {{3, kHeldEntry}}, {4}); },
     kHour,
     ""},
};
INSTANTIATE_TEST_SUITE_P(Table, BlocksAreGivenBack, testing::ValuesIn(kBlocksCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Blocks, OfIdleNodesStayWhereTheyAreOnceBlocksAreScarce) {
  BlocksWorld world;
  world.Nodes(10).Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "n2");
  EXPECT_EQ(world.Pass(80).size(), 2U);
  EXPECT_EQ(world.Scarce(), "True");
  EXPECT_EQ(world.Pass(kHour), BlockLines());
  EXPECT_EQ(world.Scarce(), "True");
}

TEST(Blocks, AreGivenBackAlthoughTheApiServerRefusedThisOnce) {
  BlocksWorld world;
  world.Nodes(10).Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "n2").Refuse("10.55.0.0-26");
  EXPECT_EQ(world.Pass(80).size(), 2U);
}

TEST(Blocks, AreGivenBackWhileTheApiServerRefusesToDeleteAnother) {
  BlocksWorld world;
  world.Nodes(5).Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "n2").Pass(50);
  for (int i = 0; i < 20; ++i) world.Refuse("10.55.0.0-26");
  EXPECT_EQ(WithoutTimes(world.Pass(27), 8, 27), "delete block 10.55.0.64-26");
}

TEST(Blocks, AreAlsoNeededByAFullNodeWhosePodsWait) {
  BlocksWorld world(Reclaim::kOn, {{"subnet", "10.55.0.0/30"}, {"blockSize", 32}, {"allowEdgeAddresses", true}});
  world.Nodes(2)
      .Block("10.55.0.0/32", "n1", {{0, kHeldEntry}})
      .Block("10.55.0.1/32", "n2")
      .Block("10.55.0.2/32", "n2")
      .Block("10.55.0.3/32", "n2");
  EXPECT_EQ(world.Pass(kHour), BlockLines());
  world.WaitingPod("n1");
  EXPECT_EQ(world.Pass(50), BlockLines{"0: delete block 10.55.0.1-32"}) << "it has rested long";
}

TEST(Blocks, AreNotNeededByNodesThatThePoolDoesNotAdmit) {
  BlocksWorld world(Reclaim::kOn, {{"subnet", "10.55.0.0/24"}, {"nodeSelector", {{"matchLabels", {{"zone", "a"}}}}}});
  world.Node("n1", true, {{"zone", "a"}}).Node("n2", true, {{"zone", "b"}}).Node("n3");
  for (const char* cidr : {"10.55.0.0/26", "10.55.0.64/26", "10.55.0.128/26", "10.55.0.192/26"})
    world.Block(cidr, "n1");
  EXPECT_EQ(world.Pass(kHour), BlockLines());
  world.Node("n3", true, {{"zone", "a"}});
  EXPECT_EQ(world.Pass(80).size(), 1U);
}

TEST(Blocks, OfASharedPoolBelongToNoNodeThatCouldBeGone) {
  BlocksWorld world(Reclaim::kOn, {{"subnet", "10.55.0.0/24"}, {"affinity", "Shared"}});
  world.Nodes(1).Block("10.55.0.0/26", "", {{0, "x"}});
  EXPECT_EQ(world.Pass(kHour), BlockLines());
}

TEST(Blocks, OfASharedPoolStay) {
  BlocksWorld world(Reclaim::kOn, {{"subnet", "10.55.0.0/24"}, {"affinity", "Shared"}});
  world.Nodes(10).Block("10.55.0.0/26", "");
  EXPECT_EQ(world.Pass(kHour), BlockLines());
}

TEST(Blocks, OfADisabledPoolStay) {
  BlocksWorld world(Reclaim::kOn, {{"subnet", "10.55.0.0/24"}, {"disabled", true}});
  world.Twin().Nodes(10).Block("10.55.0.0/26", "n1");
  EXPECT_EQ(world.Pass(kHour), BlockLines());
}

TEST(Blocks, AreNotScarceIfOneIsLeftForEachNode) {
  BlocksWorld world;
  world.Nodes(4).Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "n2").Pass(80);
  EXPECT_NE(world.Scarce(), "True");
}

TEST(Blocks, StayIfReclaimingIsOff) {
  for (const Reclaim mode : {Reclaim::kOff, Reclaim::kReport}) {
    BlocksWorld world(mode);
    world.Nodes(10).Block("10.55.0.0/26", "n1").Block("10.55.0.64/26", "gone");
    EXPECT_EQ(world.Pass(kHour), BlockLines());
    EXPECT_EQ(world.Scarce(), "never");
  }
}

// If scarcity ended here, a living node would claim a first block of each of the two pools, and lose both again.
TEST(Blocks, StayScarceWhereTwoPoolsShareASubnetThatHasABlockForEachNodeButNotForEachPool) {
  BlocksWorld world;
  const std::map<ipam::BlockOffset, std::string> held = {{3, kHeldEntry}};
  world.Twin().Nodes(2).Block("10.55.0.0/26", "n1", held).Block("10.55.0.64/26", "n1", held);
  world.Block("10.55.0.128/26", "n1", held).Block("10.55.0.192/26", "n1", held).Pass(1);
  EXPECT_EQ(world.Scarce(), "True") << "none is left for n2";
  world.RemoveBlock("10.55.0.0-26").RemoveBlock("10.55.0.64-26").Pass(1);
  EXPECT_EQ(world.Scarce(), "True") << "two are left, and two nodes could claim one of each pool";
  world.RemoveBlock("10.55.0.128-26").RemoveBlock("10.55.0.192-26").Pass(1);
  EXPECT_EQ(world.Scarce(), "False");
}

TEST(Blocks, AreNotScarcerBecauseOfADisabledPool) {
  BlocksWorld world;
  const std::map<ipam::BlockOffset, std::string> held = {{3, kHeldEntry}};
  world.Twin({{"subnet", "10.55.0.0/24"}, {"disabled", true}}).Nodes(2);
  world.Block("10.55.0.0/26", "n1", held).Block("10.55.0.64/26", "n1", held);
  world.Block("10.55.0.128/26", "n1", held).Block("10.55.0.192/26", "n1", held).Pass(1);
  EXPECT_EQ(world.Scarce(), "True") << "none is left for n2";
  world.RemoveBlock("10.55.0.0-26").RemoveBlock("10.55.0.64-26").Pass(1);
  EXPECT_EQ(world.Scarce(), "False");
}

TEST(Blocks, AreScarceUntilEveryNodeCouldHaveOneMore) {
  BlocksWorld world;
  world.Nodes(3).Block("10.55.0.0/26", "n1", {{3, kHeldEntry}}).Block("10.55.0.64/26", "n1", {{3, kHeldEntry}});
  world.Block("10.55.0.128/26", "n1", {{3, kHeldEntry}});
  world.Pass(1);
  EXPECT_EQ(world.Scarce(), "True") << "one is left for two nodes";
  world.Block("10.55.0.128/26", "n1");
  world.Pass(80);
  EXPECT_EQ(world.Scarce(), "True") << "two are left, and three nodes could claim ahead";
  world.Block("10.55.0.64/26", "n1");
  world.Pass(80);
  EXPECT_EQ(world.Scarce(), "True") << "two are enough, so the third stays with its node";
  world.RemoveNode("n3");
  world.Pass(1);
  EXPECT_EQ(world.Scarce(), "False");
}

}  // namespace
}  // namespace berth::reconciler
