// SPDX-License-Identifier: Apache-2.0
// Draining: what may be removed, what must not, and what needs another look first.
#include "reconciler/decide_drain.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using Lines = std::vector<std::string>;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const json kDrainedPool = {{"subnet", "10.55.0.0/24"}};
const std::string kPast = "~ t=1799999999999";
const std::string kFuture = "~ t=1800000000001";

struct BlockDrainCase {
  const char* name;
  std::function<void(TestWorld&)> given;
  Lines want_unlisted;
  Lines want_relisted;
};
// The decision after the blocks have been unchanged for `time`.
Decision Drain(TestWorld& t, bool relisted, std::chrono::seconds time = kSeenEmptyMin) {
  EmptyBlocks empty;
  empty.Update(t.world, t.now);
  t.now.steady += time;
  Decision decision;
  DecideBlockDrain({.world = t.world, .empty = empty, .state = t.state, .now = t.now, .relisted = relisted}, decision);
  return decision;
}

class BlockDrains : public testing::TestWithParam<BlockDrainCase> {};

TEST_P(BlockDrains, OnlyWhenNoPodHasAnAddressOfTheBlock) {
  const BlockDrainCase& c = GetParam();
  for (const bool relisted : {false, true}) {
    TestWorld t;
    c.given(t);
    const Decision decision = Drain(t, relisted);
    EXPECT_EQ(TestWorld::Describe(decision), relisted ? c.want_relisted : c.want_unlisted) << "relisted: " << relisted;
  }
}

const Lines kNothing;
const Lines kDeleted = {"delete block 10.55.0.0-26"};
const Lines kReleased = {"block 10.55.0.0-26 finalizers=[]"};
const Lines kAsksFirst = {"relist for IPBlock/10.55.0.0-26"};

std::function<void(TestWorld&)> LiveWith(const std::map<ipam::BlockOffset, std::string>& entries,
                                         const BlockTraits& traits = {}) {
  return [=](TestWorld& t) { t.Pool("web", kDrainedPool).Block("10.55.0.0/26", "web", entries, traits); };
}
std::function<void(TestWorld&)> DyingWith(const std::map<ipam::BlockOffset, std::string>& entries,
                                          const BlockTraits& traits = {}) {
  return [=](TestWorld& t) {
    t.Pool("web", kDrainedPool, {.is_deleting = true}).Block("10.55.0.0/26", "web", entries, traits);
  };
}
// Adds a pod whose entry somebody removed. kHeldEntry is the entry of that pod.
std::function<void(TestWorld&)> AndPodWith(const std::string& address, const std::function<void(TestWorld&)>& given) {
  return [=](TestWorld& t) {
    given(t);
    t.world.pods.Put({.name_space = "default",
                      .name = "web-1",
                      .uid = "6f1d",
                      .node = "n1",
                      .addresses = {ipam::Address::Parse(address).value()},
                      .has_sandbox = true},
                     t.now.steady);
  };
}
std::function<void(TestWorld&)> OrphanWith(const std::map<ipam::BlockOffset, std::string>& entries) {
  return [=](TestWorld& t) { t.Block("10.55.0.0/26", "web", entries); };
}

// The controller freed the entry; the node's agent removes it once the network namespace is gone.
const std::string kPastFreed = std::string(kPast) + " f=0123456789ab-0123456789abcdef " +
                               "default/web-1 6f1d 0123456789ab-0123456789abcdef i=eth0 t=1 ns=cni-1";

const BlockDrainCase kBlockDrainCases[] = {
    {"EmptyOfALivePoolStays", LiveWith({}), kNothing, kNothing},
    {"EmptyWithoutNodeInANodePoolGoes", LiveWith({}, {.node = ""}), kDeleted, kDeleted},
    {"HeldWithoutNodeInANodePoolStays", LiveWith({{3, kHeldEntry}}, {.node = ""}), kNothing, kNothing},
    {"EmptyWithANodeInASharedPoolGoes",
     [](TestWorld& t) {
       t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"affinity", "Shared"}}).Block("10.55.0.0/26", "web", {});
     },
     kDeleted,
     kDeleted},
    {"EmptyOfASharedPoolStays",
     [](TestWorld& t) {
       t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"affinity", "Shared"}})
           .Block("10.55.0.0/26", "web", {}, {.node = ""});
     },
     kNothing,
     kNothing},
    {"EmptyOfAnotherSizeGoes",
     [](TestWorld& t) {
       t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"blockSize", 27}}).Block("10.55.0.0/26", "web", {});
     },
     kDeleted,
     kDeleted},
    {"EmptyOutsideItsPoolGoes",
     [](TestWorld& t) { t.Pool("web", {{"subnet", "10.56.0.0/24"}}).Block("10.55.0.0/26", "web", {}); },
     kDeleted,
     kDeleted},
    {"DeletedAndEmptyLosesItsFinalizer", LiveWith({}, {.is_deleting = true}), kReleased, kReleased},
    {"DeletedButHeldStays", LiveWith({{3, kHeldEntry}}, {.is_deleting = true}), kNothing, kNothing},
    {"DeletedWithAnEntryNobodyUnderstandsStays", LiveWith({{3, "?"}}, {.is_deleting = true}), kNothing, kNothing},
    {"DeletedWithABrokenReservationStays", LiveWith({{3, "! %zz"}}, {.is_deleting = true}), kNothing, kNothing},
    {"DeletedWithABrokenCoolingStays", LiveWith({{3, "~ t=soon"}}, {.is_deleting = true}), kNothing, kNothing},
    {"DeletedAndCoolingWaits", LiveWith({{3, kFuture}}, {.is_deleting = true}), kNothing, kNothing},
    {"DeletedAndCooledLosesItsFinalizer", LiveWith({{3, kPast}}, {.is_deleting = true}), kReleased, kReleased},
    {"DeletedWithAFreedOneThatNoAgentHasLookedAtStays",
     LiveWith({{3, kPastFreed}}, {.is_deleting = true}),
     kNothing,
     kNothing},
    {"ReservationsDoNotKeepADeletedBlock", LiveWith({{3, "! r"}}, {.is_deleting = true}), kReleased, kReleased},
    {"DeletedWithAddressesOnStandbyStays", LiveWith({}, {.is_deleting = true, .standby = {4}}), kNothing, kNothing},
    {"OneHeldAmongCooledOnesKeepsIt",
     LiveWith({{1, kPast}, {2, "! r"}, {3, kHeldEntry}}, {.is_deleting = true}),
     kNothing,
     kNothing},
    {"DeletedWithoutOurFinalizerIsNotOurs",
     LiveWith({}, {.is_deleting = true, .has_finalizer = false}),
     kNothing,
     kNothing},
    {"EmptyOfADeletedPoolIsDeleted", DyingWith({}), kDeleted, kDeleted},
    {"EmptyWithoutFinalizerOfADeletedPoolIsDeleted", DyingWith({}, {.has_finalizer = false}), kDeleted, kDeleted},
    {"WithAddressesOnStandbyOfADeletedPoolStays", DyingWith({}, {.standby = {4}}), kNothing, kNothing},
    {"HeldOfADeletedPoolStays", DyingWith({{3, kHeldEntry}}), kNothing, kNothing},
    {"CoolingOfADeletedPoolWaits", DyingWith({{3, kFuture}}), kNothing, kNothing},
    {"ReservedOfADeletedPoolIsDeleted", DyingWith({{3, "! r"}}), kDeleted, kDeleted},
    {"EmptyOfAPoolThatIsGoneIsAskedAboutFirst", OrphanWith({}), kAsksFirst, kDeleted},
    {"HeldOfAPoolThatIsGoneStays", OrphanWith({{3, kHeldEntry}}), kNothing, kNothing},
    {"EmptyOfAnEarlierPoolOfTheNameIsAskedAboutFirst",
     LiveWith({}, {.pool_uid = "uid-of-the-former"}),
     kAsksFirst,
     kDeleted},
    {"OfADeletedPoolStaysWhileAPodHasAnAddressWithoutAnEntry",
     AndPodWith("10.55.0.7", DyingWith({})),
     kNothing,
     kNothing},
    {"DeletedStaysWhileAPodHasAnAddressWithoutAnEntry",
     AndPodWith("10.55.0.7", LiveWith({}, {.is_deleting = true})),
     kNothing,
     kNothing},
    {"OfAPoolThatIsGoneStaysWhileAPodHasAnAddressWithoutAnEntry",
     AndPodWith("10.55.0.7", OrphanWith({})),
     kNothing,
     kNothing},
    {"SharedStaysWhileAPodOfAnyNodeHasAnAddressWithoutAnEntry",
     AndPodWith("10.55.0.7", DyingWith({}, {.node = ""})),
     kNothing,
     kNothing},
    {"AnAddressInAnotherBlockKeepsNone", AndPodWith("10.55.0.77", DyingWith({})), kDeleted, kDeleted},
    {"AnAddressOfAnotherNodeKeepsNone", AndPodWith("10.55.0.7", DyingWith({}, {.node = "n2"})), kDeleted, kDeleted},
    {"AnAddressThatAnotherSpaceRecordsKeepsNone",
     AndPodWith("10.55.0.7",
                [](TestWorld& t) {
                  DyingWith({})(t);
                  t.Pool("blue", kDrainedPool).Block("10.55.0.0/26", "blue", {{7, kHeldEntry}}, {.space = "blue"});
                }),
     kDeleted,
     kDeleted},
    {"UnreadableIsNeverDeleted",
     [](TestWorld& t) {
       t.Pool("web", kDrainedPool, {.is_deleting = true}).UnreadableBlock("10.55.0.0-26", "uid-of-web");
     },
     kNothing,
     kNothing},
    {"UnreadableIsNeverReleased",
     [](TestWorld& t) {
       t.Pool("web", kDrainedPool).UnreadableBlock("10.55.0.0-26", "uid-of-web", /*is_deleting=*/true);
     },
     kNothing,
     kNothing},
};
INSTANTIATE_TEST_SUITE_P(Table, BlockDrains, testing::ValuesIn(kBlockDrainCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(BlockDrain, DecidesAgainWhenTheLastEntryHasCooled) {
  TestWorld t;
  t.Pool("web", kDrainedPool, {.is_deleting = true});
  t.Block("10.55.0.0/26", "web", {{3, "~ t=1800000005000"}, {4, "~ t=1800000009000"}});
  const Decision decision = Drain(t, /*relisted=*/false);
  EXPECT_EQ(decision.wake_unix_ms, 1'800'000'009'000);
}

// The block's pods may have addresses that nobody knows yet.
TEST(BlockDrain, BeginsAfterTheBlockWasEmptyForFiveSeconds) {
  for (const bool is_deleting : {false, true}) {
    TestWorld t;
    t.Pool("web", kDrainedPool, {.is_deleting = true}).Block("10.55.0.0/26", "web", {}, {.is_deleting = is_deleting});
    const SteadyTime due = t.now.steady + kSeenEmptyMin;
    const Decision decision = Drain(t, /*relisted=*/true, kSeenEmptyMin - std::chrono::seconds(1));
    EXPECT_EQ(TestWorld::Describe(decision), kNothing) << is_deleting;
    EXPECT_EQ(decision.wake_steady, due) << is_deleting;
  }
}

TEST(BlockDrain, KeepsTheFinalizersOfOthers) {
  TestWorld t;
  t.Pool("web", kDrainedPool).Block("10.55.0.0/26", "web", {}, {.is_deleting = true});
  ipam::Block block = *t.world.blocks().at("10.55.0.0-26").block;
  block.finalizers = {"example.org/a", std::string(ipam::kBlockFinalizer), "example.org/b"};
  t.world.PutBlock(SeenAs(std::move(block)));
  const Decision decision = Drain(t, /*relisted=*/false);
  EXPECT_EQ(TestWorld::Describe(decision), Lines{"block 10.55.0.0-26 finalizers=[example.org/a,example.org/b]"});
  EXPECT_NE(decision.wake_steady, t.now.steady) << "there is nothing more to do";
}

TEST(BlockDrain, ChangesAtMostTwoHundredBlocksInOneDecision) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/16"}}, {.is_deleting = true});
  for (int i = 0; i < 250; ++i) t.Block("10.55." + std::to_string(i) + ".0/26", "web", {});
  const Decision decision = Drain(t, /*relisted=*/false);
  EXPECT_EQ(decision.actions.size(), kBlockChangesMax);
  EXPECT_EQ(decision.wake_steady, t.now.steady) << "the rest would wait for an event";
}

TEST(BlockDrain, IsNotHeldUpByBlocksThatWaitAfterAFailure) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/16"}}, {.is_deleting = true});
  for (std::size_t i = 0; i <= kBlockChangesMax; ++i) t.Block("10.55." + std::to_string(i) + ".0/26", "web", {});
  static_cast<void>(t.Decide(/*relisted=*/false));
  t.now.steady += kSeenEmptyMin;
  const std::string last = t.world.blocks().rbegin()->first;
  const Error refused{.code = ErrorCode::kForbidden, .message = "x", .retry_after = std::chrono::seconds(30)};
  for (const auto& [name, block] : t.world.blocks()) {
    if (name != last) t.state.backoff.Failed(BlockKey(name), refused, t.now.steady);
  }
  EXPECT_THAT(t.Lines(/*relisted=*/false), Contains("delete block " + last));
}

struct PoolDrainCase {
  const char* name;
  std::function<void(TestWorld&)> given;
  Lines want_unlisted;
  Lines want_relisted;
};
class PoolDrains : public testing::TestWithParam<PoolDrainCase> {};

TEST_P(PoolDrains, AfterItsLastBlockIsGone) {
  const PoolDrainCase& c = GetParam();
  for (const bool relisted : {false, true}) {
    TestWorld t;
    c.given(t);
    Decision decision;
    DecidePoolDrain(t.world, relisted, decision);
    EXPECT_EQ(TestWorld::Describe(decision), relisted ? c.want_relisted : c.want_unlisted) << "relisted: " << relisted;
  }
}

const PoolTraits kDying = {.is_deleting = true};
const Lines kPoolReleased = {"pool web finalizers=[]"};
const Lines kPoolAsksFirst = {"relist for IPPool/web"};

const PoolDrainCase kPoolDrainCases[] = {
    {"ALivePoolStays", [](TestWorld& t) { t.Pool("web", kDrainedPool); }, kNothing, kNothing},
    {"ADrainedOneIsAskedAboutAndGoes",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying); },
     kPoolAsksFirst,
     kPoolReleased},
    {"OneThatIsStillAcceptedStays",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying).Space("default", {"web"}); },
     kNothing,
     kNothing},
    {"OneAcceptedIntoAnUnexpectedSpaceStays",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying).Space("blue", {"web"}); },
     kNothing,
     kNothing},
    {"AnEmptyBlockKeepsIt",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying).Block("10.55.0.0/26", "web", {}); },
     kNothing,
     kNothing},
    {"AnUnreadableBlockOfItKeepsIt",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying).UnreadableBlock("10.66.0.0-26", "uid-of-web"); },
     kNothing,
     kNothing},
    {"AnUnreadableBlockInItsSubnetKeepsIt",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying).UnreadableBlock("10.55.0.0-26", ""); },
     kNothing,
     kNothing},
    {"AnyUnreadableBlockKeepsAnUnreadablePool",
     [](TestWorld& t) { t.Pool("web", {{"subnet", "nonsense"}}, kDying).UnreadableBlock("10.66.0.0-26", ""); },
     kNothing,
     kNothing},
    {"ABlockOfAnEarlierPoolOfTheNameDoesNot",
     [](TestWorld& t) {
       t.Pool("web", kDrainedPool, kDying)
           .Block("10.55.0.0/26", "web", {{1, kHeldEntry}}, {.pool_uid = "uid-of-former"});
     },
     kPoolAsksFirst,
     kPoolReleased},
    {"OneWithoutOurFinalizerIsNotOurs",
     [](TestWorld& t) { t.Pool("web", kDrainedPool, {.has_finalizer = false, .is_deleting = true}); },
     kNothing,
     kNothing},
    {"WhateverPoolsComeBeforeIt",
     [](TestWorld& t) {
       t.Pool("a-live", kDrainedPool).Pool("b-accepted", kDrainedPool, kDying).Space("default", {"b-accepted"});
       t.Pool("c-drained", kDrainedPool, kDying).Pool("web", kDrainedPool, kDying);
     },
     {"relist for IPPool/c-drained", "relist for IPPool/web"},
     {"pool c-drained finalizers=[]", "pool web finalizers=[]"}},
    {"ABlockOfItKeepsAPoolThatCannotBeRead",
     [](TestWorld& t) { t.Pool("web", {{"subnet", "nonsense"}}, kDying).Block("10.55.0.0/26", "web", {}); },
     kNothing,
     kNothing},
    {"ABlockOfAnotherPoolKeepsNone",
     [](TestWorld& t) { t.Pool("web", {{"subnet", "nonsense"}}, kDying).Block("10.55.0.0/26", "blue", {}); },
     kPoolAsksFirst,
     kPoolReleased},
};
INSTANTIATE_TEST_SUITE_P(Table, PoolDrains, testing::ValuesIn(kPoolDrainCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(SpaceEnd, AnUnusedSpaceIsDeletedAfterARelistAndThenLosesItsFinalizer) {
  TestWorld t;
  t.Space("default", {});
  EXPECT_EQ(t.Lines(/*relisted=*/false), Lines{"relist for IPSpace/default"});
  EXPECT_EQ(t.Lines(/*relisted=*/true), Lines{"delete space default"});
  t.world.spaces.at("default").meta.deletion_timestamp = "2027-01-02T00:00:00Z";
  EXPECT_EQ(t.Lines(/*relisted=*/false), Lines{"space default finalizers=[]"});
}

struct SpaceStaysCase {
  const char* name;
  std::function<void(TestWorld&)> given;
};
class SpaceStays : public testing::TestWithParam<SpaceStaysCase> {};

TEST_P(SpaceStays, WhileAPoolOrBlockNamesIt) {
  TestWorld t;
  GetParam().given(t);
  EXPECT_THAT(t.Lines(/*relisted=*/true), Not(Contains(HasSubstr("delete space"))));
  EXPECT_THAT(t.Lines(/*relisted=*/true), Not(Contains(HasSubstr("space default finalizers=[]"))));
}

const SpaceStaysCase kSpaceStaysCases[] = {
    {"APool", [](TestWorld& t) { t.Pool("web", kDrainedPool).Space("default", {"web"}); }},
    {"ANewPool", [](TestWorld& t) { t.Pool("web", kDrainedPool, {.has_finalizer = false}).Space("default", {}); }},
    {"AWrongPool",
     [](TestWorld& t) {
       t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"exclude", {"10.55.0.0/24"}}}).Space("default", {});
     }},
    {"APoolThatCannotBeRead", [](TestWorld& t) { t.Pool("web", {{"subnet", "nonsense"}}).Space("default", {}); }},
    {"ADeletedPool", [](TestWorld& t) { t.Pool("web", kDrainedPool, kDying).Space("default", {}); }},
    {"ABlock", [](TestWorld& t) { t.Space("default", {}).Block("10.55.0.0/26", "gone", {{1, kHeldEntry}}); }},
    {"DeletedWithAnAcceptedPool",
     [](TestWorld& t) {
       t.Pool("web", kDrainedPool).Space("default", {"web"});
       t.world.spaces.at("default").meta.deletion_timestamp = "2027-01-02T00:00:00Z";
     }},
    {"DeletedWithAPoolThatWaits",
     [](TestWorld& t) {
       t.Pool("web", kDrainedPool).Space("default", {});
       t.world.spaces.at("default").meta.deletion_timestamp = "2027-01-02T00:00:00Z";
     }},
    {"MadeBySomebodyElse", [](TestWorld& t) { t.SpaceWith("default", json::array(), {}, {}); }},
};
INSTANTIATE_TEST_SUITE_P(Table, SpaceStays, testing::ValuesIn(kSpaceStaysCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::reconciler
