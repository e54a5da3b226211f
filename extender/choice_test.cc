// SPDX-License-Identifier: Apache-2.0
// Which nodes the chooser answers, and when assumed entries end.
#include "extender/choice.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::extender {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const SteadyTime kStart{seconds(1000)};
const SteadyTime kNow = kStart + kLeadingPause;

NodeRoom Own(std::int64_t left) { return {.left = {{"ipv4", left}}, .shared = {}}; }
// A node served by the first Shared pool.
NodeRoom WithShared(std::int64_t left) { return {.left = {{"ipv4", left}}, .shared = {0}}; }
Pod PodOf(const std::string& uid, std::int64_t units = 1) {
  return {.key = "default/" + uid, .uid = uid, .needs = {{"ipv4", units}}};
}

class ChooserTest : public testing::Test {
 protected:
  ChooserTest() { chooser_.Lead(kStart); }

  // Returns whether the scheduler has to be woken.
  bool Publish(Snapshot snapshot, SteadyTime now = kNow) {
    return chooser_.Publish(
        std::move(snapshot),
        [this](const std::string&, const std::string& uid) {
          if (settled_.contains(uid)) return Seen::kSettled;
          return waiting_.contains(uid) ? Seen::kWaiting : Seen::kUnknown;
        },
        now);
  }
  Choice Ask(const Pod& pod, SteadyTime now = kNow) { return chooser_.Filter(pod, {"n1", "n2"}, now); }
  // Asks for `pods` pods. Returns how many got a node, if each gets at most one.
  int Placed(int pods) {
    int placed = 0;
    for (int i = 0; i < pods; ++i) placed += static_cast<int>(Ask(PodOf("p" + std::to_string(i))).nodes.size());
    return placed;
  }

  Chooser chooser_;
  std::set<std::string> settled_, waiting_;
};

TEST_F(ChooserTest, AControllerThatDoesNotLeadAnswersError) {
  Chooser other;
  EXPECT_THAT(other.Filter(PodOf("a"), {"n1"}, kNow).error, HasSubstr("does not lead"));
}

TEST_F(ChooserTest, APodThatNeedsNoAddressNeedsNoLeader) {
  Chooser other;
  const Pod pod{.key = "a/b", .uid = "b", .needs = {}};
  EXPECT_THAT(other.Filter(pod, {"n1", "n2"}, kNow).nodes, ElementsAre("n1", "n2"));
  other.Lead(kNow);
  EXPECT_THAT(other.Filter(pod, {"n1", "n2"}, kNow).nodes, ElementsAre("n1", "n2"));
}

TEST_F(ChooserTest, ANewLeaderAnswersErrorForThreeSeconds) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(5)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a"), kNow - std::chrono::milliseconds(1)).error, HasSubstr("begun to lead"));
  EXPECT_EQ(Ask(PodOf("a"), kNow).error, "");
}

TEST_F(ChooserTest, ALeaderWithoutASnapshotAnswersError) { EXPECT_THAT(Ask(PodOf("a")).error, HasSubstr("try again")); }

TEST_F(ChooserTest, APodThatNeedsNoAddressMayRunAnywhere) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  const Choice choice = Ask({.key = "kube-system/host", .uid = "host", .needs = {}});
  EXPECT_THAT(choice.nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(chooser_.assumed(), 0U);
}

TEST_F(ChooserTest, AnswersAllNodesThatHavePlentyOfAddresses) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(kPlenty + 1)}, {"n2", Own(kPlenty + 1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1", "n2"));
}

TEST_F(ChooserTest, LeavesOutANodeWithFewAddressesIfAnotherHasPlenty) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(5)}, {"n2", Own(100)}}, .shared = {}}));
  const Choice choice = Ask(PodOf("a"));
  EXPECT_THAT(choice.nodes, ElementsAre("n2"));
  EXPECT_THAT(choice.full, ElementsAre(Pair("n1", HasSubstr("another node"))));
}

TEST_F(ChooserTest, AnswersTheOneNodeWithMostAddressesIfAddressesAreShort) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(2)}, {"n2", Own(3)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n2"));
  EXPECT_THAT(Ask(PodOf("b")).nodes, ElementsAre("n1")) << "both have two left: the first one offered";
}

TEST_F(ChooserTest, ABurstOfPodsGetsExactlyAsManyNodesAsThereAreAddresses) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(5)}, {"n2", Own(8)}}, .shared = {}}));
  EXPECT_EQ(Placed(20), 13);
}

TEST_F(ChooserTest, ABurstThatStartsWithPlentyEndsWithoutPromisingTooMuch) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(100)}, {"n2", Own(100)}}, .shared = {}}));
  std::map<std::string, int> worst;  // if every pod with several nodes went to the same node
  for (int i = 0; i < 300; ++i) {
    for (const std::string& node : Ask(PodOf("p" + std::to_string(i))).nodes) ++worst[node];
  }
  EXPECT_LE(worst["n1"], 100);
  EXPECT_LE(worst["n2"], 100);
}

TEST_F(ChooserTest, AnswersErrorAndNotFullIfOnlyPodsOnUnknownNodesAreInTheWay) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(100)}, {"n2", Own(100)}}, .shared = {}}));
  Choice last;
  for (int i = 0; i < 300; ++i) last = Ask(PodOf("p" + std::to_string(i)));
  EXPECT_THAT(last.error, HasSubstr("are being placed"));
}

TEST_F(ChooserTest, AFullNodeIsFullAndOneThatNoPoolServesIsExcluded) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}, {"n2", {}}}, .shared = {}}));
  const Choice choice = chooser_.Filter(PodOf("a"), {"n1", "n2", "n3"}, kNow);
  EXPECT_THAT(choice.nodes, IsEmpty());
  EXPECT_THAT(
      choice.full,
      ElementsAre(Pair("n1", "no ipam.berth.dev/ipv4 address is left"), Pair("n3", HasSubstr("does not know"))));
  EXPECT_THAT(choice.excluded, ElementsAre(Pair("n2", "no pool of ipam.berth.dev/ipv4 serves this node")));
}

TEST_F(ChooserTest, APodNeedsEachOfItsResources) {
  static_cast<void>(Publish({.nodes = {{"n1", {.left = {{"ipv4", 5}, {"ipv6", 0}}, .shared = {}}},
                                       {"n2", {.left = {{"ipv4", 5}}, .shared = {}}},
                                       {"n3", {.left = {{"ipv4", 5}, {"ipv6", 1}}, .shared = {}}}},
                             .shared = {}}));
  const Pod both{.key = "default/a", .uid = "a", .needs = {{"ipv4", 1}, {"ipv6", 1}}};
  const Choice choice = chooser_.Filter(both, {"n1", "n2", "n3"}, kNow);
  EXPECT_THAT(choice.nodes, ElementsAre("n3"));
  EXPECT_THAT(choice.full, ElementsAre(Pair("n1", HasSubstr("ipv6"))));
  EXPECT_THAT(choice.excluded, ElementsAre(Pair("n2", HasSubstr("ipv6"))));
}

TEST_F(ChooserTest, APodThatNeedsMoreThanAnyNodeHasFindsNoNode) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(2)}, {"n2", Own(2)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a", 3)).nodes, IsEmpty());
  EXPECT_EQ(Ask(PodOf("b", 2)).nodes.size(), 1U);
}

TEST_F(ChooserTest, APodThatAsksAgainTakesNothingFromItself) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  EXPECT_THAT(Ask(PodOf("b")).nodes, IsEmpty());
}

TEST_F(ChooserTest, APodThatAsksAgainGetsEachNodeInTurnIfAddressesAreShort) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(100)}, {"n2", Own(5)}, {"n3", Own(3)}}, .shared = {}}));
  std::vector<std::string> answered;
  for (int i = 0; i < 5; ++i) {
    const Choice choice = chooser_.Filter(PodOf("a"), {"n1", "n2", "n3"}, kNow);
    ASSERT_EQ(choice.nodes.size(), 1U);
    answered.push_back(choice.nodes.front());
  }
  EXPECT_THAT(answered, ElementsAre("n1", "n2", "n3", "n1", "n2"));
  EXPECT_THAT(chooser_.Filter(PodOf("b"), {"n1", "n2", "n3"}, kNow).nodes, ElementsAre("n1"))
      << "it asks for the first time";
}

TEST_F(ChooserTest, AnAssumedEntryEndsWhenTheSnapshotCountsThePod) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(2)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  settled_.insert("a");
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_EQ(chooser_.assumed(), 0U);
  EXPECT_THAT(Ask(PodOf("b")).nodes, ElementsAre("n1"));
  EXPECT_THAT(Ask(PodOf("c")).nodes, IsEmpty());
}

TEST_F(ChooserTest, AnAssumedEntryOutlivesASnapshotInWhichThePodStillWaits) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  waiting_.insert("a");
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("b")).nodes, IsEmpty());
}

TEST_F(ChooserTest, AnAssumedEntryEndsWithThePodButNotBeforeThePodIsKnown) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_EQ(chooser_.assumed(), 1U) << "the controller's watch may be behind the scheduler's";
  waiting_.insert("a");
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  waiting_.clear();
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_EQ(chooser_.assumed(), 0U);
}

TEST_F(ChooserTest, AnAssumedEntryEndsWithASnapshotOfThirtySecondsLaterAndNotBefore) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  const SteadyTime late = kNow + kAssumedMax;
  EXPECT_THAT(Ask(PodOf("b"), late).nodes, IsEmpty()) << "the snapshot is of before: a pass takes long";
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}, late - seconds(1)));
  EXPECT_THAT(Ask(PodOf("b"), late).nodes, IsEmpty());
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}, late));
  EXPECT_THAT(Ask(PodOf("b"), late).nodes, ElementsAre("n1"));
}

TEST_F(ChooserTest, APodThatFindsNoNodeIsNotAssumed) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, IsEmpty());
  EXPECT_EQ(chooser_.assumed(), 0U);
}

TEST_F(ChooserTest, MoreRoomWakesTheSchedulerIfAPodFoundNoNode) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}})) << "no pod has asked";
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, IsEmpty());
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_TRUE(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(2)}}, .shared = {}})) << "it has been woken, and no pod was refused since";
}

TEST_F(ChooserTest, MoreRoomOfAnotherResourceWakesNobody) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, IsEmpty());
  EXPECT_FALSE(Publish({.nodes = {{"n1", {.left = {{"ipv4", 0}, {"ipv6", 5}}, .shared = {}}}}, .shared = {}}));
}

TEST_F(ChooserTest, FewerPodsWithoutAnAddressAreNoRoomYet) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(-3)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, IsEmpty());
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_TRUE(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
}

TEST_F(ChooserTest, APodThatIsBoundWhereItWasAssumedMakesNoRoom) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  EXPECT_THAT(Ask(PodOf("b")).nodes, IsEmpty());
  settled_.insert("a");
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
}

TEST_F(ChooserTest, AnAssumedEntryThatIsOverMakesRoom) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n1"));
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}));
  EXPECT_THAT(Ask(PodOf("b")).nodes, IsEmpty());
  EXPECT_TRUE(Publish({.nodes = {{"n1", Own(1)}}, .shared = {}}, kNow + kAssumedMax));
}

TEST_F(ChooserTest, MoreRoomInASharedPoolWakesTheScheduler) {
  static_cast<void>(Publish({.nodes = {{"n1", WithShared(-1)}}, .shared = {{.resource = "ipv4", .free = 1}}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, IsEmpty());
  EXPECT_FALSE(Publish({.nodes = {{"n1", WithShared(0)}}, .shared = {{.resource = "ipv4", .free = 0}}}));
  EXPECT_TRUE(Publish({.nodes = {{"n1", WithShared(0)}}, .shared = {{.resource = "ipv4", .free = 1}}}));
}

TEST_F(ChooserTest, ANewLeaderWakesTheSchedulerOnceAfterItsPause) {
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}, kNow - std::chrono::milliseconds(1)));
  EXPECT_TRUE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}})) << "the one before may have refused pods";
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}, kNow + seconds(100)));
}

TEST_F(ChooserTest, APodThatHasWaitedForThirtySecondsWakesTheScheduler) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  const SteadyTime asked = kNow + seconds(100);
  EXPECT_THAT(Ask(PodOf("a"), asked).nodes, IsEmpty());
  EXPECT_THAT(Ask(PodOf("b"), asked + seconds(20)).nodes, IsEmpty());
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}, asked + kAwaitedMax - seconds(1)));
  EXPECT_TRUE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}, asked + kAwaitedMax));
  EXPECT_FALSE(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}, asked + seconds(100))) << "no pod was refused since";
}

TEST_F(ChooserTest, APodThatWaitsForAResourceOfNoPoolIsTriedAgainAfterThirtySeconds) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(0)}}, .shared = {}}));
  EXPECT_THAT(Ask({.key = "default/a", .uid = "a", .needs = {{"storage", 1}}}).nodes, IsEmpty());
  const NodeRoom more{.left = {{"ipv4", 0}, {"storage", 1}}, .shared = {}};
  EXPECT_FALSE(Publish({.nodes = {{"n1", more}}, .shared = {}})) << "names that no pool has are not kept";
  EXPECT_TRUE(Publish({.nodes = {{"n1", more}}, .shared = {}}, kNow + kAwaitedMax));
}

TEST_F(ChooserTest, AddressesOfASharedPoolBelongToAllNodesTogether) {
  static_cast<void>(
      Publish({.nodes = {{"n1", WithShared(0)}, {"n2", WithShared(0)}}, .shared = {{.resource = "ipv4", .free = 7}}}));
  EXPECT_EQ(Placed(20), 7);
}

TEST_F(ChooserTest, ANodesOwnAddressesAddToThoseOfASharedPool) {
  static_cast<void>(
      Publish({.nodes = {{"n1", WithShared(2)}, {"n2", WithShared(0)}}, .shared = {{.resource = "ipv4", .free = 3}}}));
  EXPECT_EQ(Placed(20), 5);
}

TEST_F(ChooserTest, PodsThatLackAddressesOnOneNodeTakeFromTheSharedPoolOfAll) {
  static_cast<void>(
      Publish({.nodes = {{"n1", WithShared(-2)}, {"n2", WithShared(0)}}, .shared = {{.resource = "ipv4", .free = 3}}}));
  EXPECT_EQ(Placed(20), 1);
}

TEST_F(ChooserTest, AddressesThatANodeLacksDoNotCountAgainstSharedPoolsOfOtherNodes) {
  static_cast<void>(Publish(
      {.nodes = {{"n1", {.left = {{"ipv4", -5}}, .shared = {0}}}, {"n2", {.left = {{"ipv4", 0}}, .shared = {1}}}},
       .shared = {{.resource = "ipv4", .free = 5}, {.resource = "ipv4", .free = 1}}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, ElementsAre("n2"));
  EXPECT_THAT(Ask(PodOf("b")).nodes, IsEmpty());
}

// Two pools overlap in one address: n1 is served by the first pool, n2 by the second.
TEST_F(ChooserTest, ANodeTakesNoMoreOfAnotherNodesAddressesThanTheyHaveInCommon) {
  static_cast<void>(Publish(
      {.nodes = {{"n1", {.left = {{"ipv4", -20}}, .shared = {0, 1}}}, {"n2", {.left = {}, .shared = {1, 2}}}},
       .shared = {
           {.resource = "ipv4", .free = 30}, {.resource = "ipv4", .free = 1}, {.resource = "ipv4", .free = 5}}}));
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(chooser_.Filter(PodOf(std::to_string(i)), {"n2"}, kNow).nodes, ElementsAre("n2")) << i;
  EXPECT_THAT(chooser_.Filter(PodOf("last"), {"n2"}, kNow).nodes, IsEmpty());
}

TEST_F(ChooserTest, ASharedPoolOfAnotherResourceHelpsNobody) {
  static_cast<void>(Publish({.nodes = {{"n1", WithShared(0)}}, .shared = {{.resource = "storage", .free = 7}}}));
  EXPECT_THAT(Ask(PodOf("a")).nodes, IsEmpty());
}

TEST_F(ChooserTest, ScoresGrowWithTheAddressesThatAreLeft) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(101)}, {"n2", Own(51)}, {"n3", Own(0)}}, .shared = {}}));
  EXPECT_THAT(chooser_.Scores(PodOf("a"), {"n1", "n2", "n3", "n4"}), ElementsAre(10, 5, 0, 0));
}

TEST_F(ChooserTest, AllNodesHaveTheSameScoreForAPodThatNeedsNoAddress) {
  static_cast<void>(Publish({.nodes = {{"n1", Own(101)}, {"n2", Own(51)}}, .shared = {}}));
  EXPECT_THAT(chooser_.Scores({.key = "a/b", .uid = "b", .needs = {}}, {"n1", "n2"}), ElementsAre(0, 0));
}

}  // namespace
}  // namespace berth::extender
