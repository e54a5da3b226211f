// SPDX-License-Identifier: Apache-2.0
// Statuses: what conditions say, and that nothing is written without need.
#include "reconciler/decide_status.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// The pool "web": 4 blocks of 64 addresses, 254 of them assignable.
class PoolStatusTest : public testing::Test {
 protected:
  void SetUp() override {
    t_.Pool("web", {{"subnet", "10.55.0.0/24"}}).Space("default", {"web"});
    t_.now.steady += std::chrono::hours(1);
    WriteAll();
  }

  // Puts the decided statuses into the world, as if they had been written.
  void WriteAll() {
    for (const Action& action : t_.Decide(/*relisted=*/false).actions) {
      if (const auto* pool = std::get_if<SetPoolStatus>(&action)) {
        t_.world.pools.at(pool->pool).status = pool->status;
        if (pool->has_new_counts) t_.state.pool_counts_written["uid-of-" + pool->pool] = t_.now.steady;
      } else if (const auto* space = std::get_if<SetSpaceStatus>(&action)) {
        t_.world.spaces.at(space->after.meta.name) = space->after;
        if (space->has_new_counts) t_.state.space_counts_written[space->after.meta.name] = t_.now.steady;
      }
    }
  }
  // The status to be written; nothing: no write.
  std::optional<crds::PoolStatus> Written() {
    std::optional<crds::PoolStatus> status;
    for (const Action& action : t_.Decide(/*relisted=*/false).actions) {
      if (const auto* pool = std::get_if<SetPoolStatus>(&action)) status = pool->status;
    }
    return status;
  }
  crds::Condition Exhausted() {
    return *crds::FindCondition(t_.world.pools.at("web").status.conditions, crds::kExhaustedCondition);
  }
  static std::map<ipam::BlockOffset, std::string> Held(ipam::BlockOffset from, ipam::BlockOffset to) {
    std::map<ipam::BlockOffset, std::string> entries;
    for (ipam::BlockOffset offset = from; offset <= to; ++offset) entries[offset] = kHeldEntry;
    return entries;
  }

  TestWorld t_;
};

TEST_F(PoolStatusTest, TheFirstStatusIsComplete) {
  const crds::PoolStatus& status = t_.world.pools.at("web").status;
  EXPECT_EQ(status.block_length, 26);
  EXPECT_EQ(status.total, 254U);
  EXPECT_EQ(status.free, 254U);
  EXPECT_EQ(status.claimable, std::vector<ipam::Prefix>{ipam::PrefixOf("10.55.0.0/24")});
  EXPECT_EQ(crds::FindCondition(status.conditions, "Ready")->observed_generation, 1);
  EXPECT_EQ(Exhausted().reason, "AddressesLeft");
}

TEST_F(PoolStatusTest, NothingIsWrittenWhenNothingChanged) {
  for (int i = 0; i < 100; ++i) {
    t_.now.steady += seconds(7);
    t_.now.unix_ms += 7000;
    EXPECT_TRUE(t_.Decide(/*relisted=*/false).actions.empty());
    EXPECT_TRUE(t_.Decide(/*relisted=*/true).actions.empty());
  }
}

TEST_F(PoolStatusTest, AChangeOfOneAddressIsWrittenAfterTenSeconds) {
  t_.Block("10.55.0.0/26", "web", Held(1, 3));
  EXPECT_FALSE(Written());
  EXPECT_EQ(t_.Decide(/*relisted=*/false).wake_steady, t_.now.steady + kCountsPeriod);
  t_.now.steady += kCountsPeriod - milliseconds(1);
  EXPECT_FALSE(Written());
  t_.now.steady += milliseconds(1);
  const auto status = Written();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->used, 3U);
  EXPECT_EQ(status->free, 251U);
  EXPECT_EQ(status->blocks, 1);
}

TEST_F(PoolStatusTest, EachWrongCountIsCorrected) {
  using Spoil = void (*)(crds::PoolStatus&);
  t_.now.steady += kCountsPeriod;
  const crds::PoolStatus right = t_.world.pools.at("web").status;
  for (const Spoil spoil : {Spoil([](crds::PoolStatus& status) { ++status.total; }),
                            Spoil([](crds::PoolStatus& status) { ++status.used; }),
                            Spoil([](crds::PoolStatus& status) { --status.free; }),
                            Spoil([](crds::PoolStatus& status) { ++status.blocks; }),
                            Spoil([](crds::PoolStatus& status) { status.claimable.clear(); })}) {
    t_.world.pools.at("web").status = right;
    spoil(t_.world.pools.at("web").status);
    EXPECT_EQ(Written(), right);
  }
}

TEST_F(PoolStatusTest, OneEntryThatIsHeldBackIsReported) {
  const SeenPool& pool = t_.world.pools.at("web");
  crds::PoolStatus status = pool.status;
  SetReclaiming(status, pool, 1, t_.now);
  EXPECT_EQ(crds::FindCondition(status.conditions, kReclaimingCondition)->reason, "TooManyOrphans");
}

TEST_F(PoolStatusTest, ConditionsGiveTheReasonOfTheirStatus) {
  const SeenPool& pool = t_.world.pools.at("web");
  crds::PoolStatus status = pool.status;
  for (const bool is_bad : {true, false}) {
    SetScarce(status, pool, is_bad, t_.now);
    SetCounted(status, pool, is_bad, t_.now);
    EXPECT_EQ(crds::FindCondition(status.conditions, crds::kScarceCondition)->reason,
              is_bad ? "FewerBlocksThanNodes" : "BlocksForAll");
    EXPECT_EQ(crds::FindCondition(status.conditions, kCountedCondition)->reason,
              is_bad ? "MixedNamespaceSelectors" : "Counted");
  }
}

struct SpaceCountsCase {
  const char* name;
  SpaceCounts before;
  SpaceCounts after;
  bool is_written_soon;
};
class SpaceCountsOf : public testing::TestWithParam<SpaceCountsCase> {};

TEST_P(SpaceCountsOf, AreWrittenSoonIfTheyMatter) {
  crds::Space space;
  space.total = GetParam().before.total;
  space.used = GetParam().before.used;
  space.free = GetParam().before.free;
  const Now now{.unix_ms = kTestNowMs, .steady = SteadyTime() + std::chrono::hours(1)};
  const auto wanted =
      StatusOfSpace(space, space, GetParam().after, {.counts_written = now.steady - kCountsPeriodMin, .now = now});
  EXPECT_EQ(wanted.has_new_counts, GetParam().is_written_soon);
  EXPECT_EQ(wanted.wake.has_value(), !GetParam().is_written_soon);
}

const SpaceCountsCase kSpaceCounts[] = {
    {"OneMoreUsed", {.total = 9, .used = 1, .free = 8}, {.total = 9, .used = 2, .free = 7}, false},
    {"OnlyOneFree", {.total = 9, .used = 7, .free = 2}, {.total = 9, .used = 8, .free = 1}, false},
    {"TheLastUsed", {.total = 9, .used = 8, .free = 1}, {.total = 9, .used = 9, .free = 0}, true},
    {"OneFreeAgain", {.total = 9, .used = 9, .free = 0}, {.total = 9, .used = 8, .free = 1}, true},
    {"APoolMore", {.total = 9, .used = 1, .free = 8}, {.total = 19, .used = 1, .free = 18}, true},
};
INSTANTIATE_TEST_SUITE_P(Table, SpaceCountsOf, testing::ValuesIn(kSpaceCounts),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(PoolStatusTest, AControllerThatHasJustStartedWritesAllDifferencesAtOnce) {
  t_.state = ControllerState();
  t_.Block("10.55.0.0/26", "web", Held(1, 3));
  EXPECT_TRUE(Written());
}

TEST_F(PoolStatusTest, TheStatusIsWrittenSoonWhenHalfOfTheBlocksExist) {
  t_.now.steady += seconds(2);
  t_.Block("10.55.0.0/26", "web", Held(1, 1));
  EXPECT_FALSE(Written());
  t_.Block("10.55.0.64/26", "web", Held(1, 1));
  const auto status = Written();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->blocks, 2);
  EXPECT_EQ(status->claimable, std::vector<ipam::Prefix>{ipam::PrefixOf("10.55.0.128/25")});
}

TEST_F(PoolStatusTest, TheStatusIsWrittenSoonWhenTheLastBlockIsClaimed) {
  t_.Block("10.55.0.0/26", "web", {}).Block("10.55.0.64/26", "web", {}).Block("10.55.0.128/26", "web", {});
  t_.now.steady += kCountsPeriod;
  WriteAll();
  t_.now.steady += seconds(2);
  t_.Block("10.55.0.192/26", "web", {});
  ASSERT_TRUE(Written());
  WriteAll();
  EXPECT_EQ(Exhausted().status, "False");
  EXPECT_EQ(Exhausted().reason, "AllBlocksClaimed");
}

TEST_F(PoolStatusTest, TheStatusShowsThatAnotherPoolHasClaimedABlock) {
  t_.Pool("twin", {{"subnet", "10.55.0.0/24"}}).Space("default", {"twin", "web"});
  t_.now.steady += kCountsPeriod;
  WriteAll();
  t_.Block("10.55.0.0/26", "twin", {});
  t_.now.steady += kCountsPeriod;
  WriteAll();
  EXPECT_EQ(t_.world.pools.at("web").status.blocks, 0);
  EXPECT_EQ(t_.world.pools.at("web").status.claimable,
            (std::vector<ipam::Prefix>{ipam::PrefixOf("10.55.0.64/26"), ipam::PrefixOf("10.55.0.128/25")}));
}

TEST_F(PoolStatusTest, TheStatusIsWrittenAfterASecondWhenTheLastAddressIsTaken) {
  for (const char* cidr : {"10.55.0.64/26", "10.55.0.128/26"}) t_.Block(cidr, "web", Held(0, 63));
  t_.Block("10.55.0.192/26", "web", Held(0, 62)).Block("10.55.0.0/26", "web", Held(1, 62));
  t_.now.steady += kCountsPeriod;
  WriteAll();
  EXPECT_EQ(t_.world.pools.at("web").status.free, 1U);
  t_.Block("10.55.0.0/26", "web", Held(1, 63));
  EXPECT_FALSE(Written());
  EXPECT_EQ(t_.Decide(/*relisted=*/false).wake_steady, t_.now.steady + kCountsPeriodMin);
  t_.now.steady += kCountsPeriodMin;
  ASSERT_TRUE(Written());
  WriteAll();
  EXPECT_EQ(Exhausted().status, "True");
  t_.Block("10.55.0.0/26", "web", Held(1, 62));
  EXPECT_FALSE(Written());
  t_.now.steady += kCountsPeriodMin;
  ASSERT_TRUE(Written());
  WriteAll();
  EXPECT_EQ(Exhausted().status, "False");
}

TEST_F(PoolStatusTest, ACoolingAddressIsFreeWhenItsTimeIsOver) {
  t_.Block("10.55.0.0/26", "web", {{1, "~ t=1800000030000"}});
  t_.now.steady += kCountsPeriod;
  WriteAll();
  EXPECT_EQ(t_.world.pools.at("web").status.used, 0U) << "nobody holds it";
  EXPECT_EQ(t_.world.pools.at("web").status.free, 253U);
  EXPECT_EQ(t_.Decide(/*relisted=*/false).wake_unix_ms, 1'800'000'030'000);
  t_.now.steady += seconds(30);
  t_.now.unix_ms += 30'000;
  const auto status = Written();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->free, 254U);
}

TEST_F(PoolStatusTest, ManyCoolingAddressesDoNotCauseManyDecisions) {
  t_.Block("10.55.0.0/26", "web", {{1, "~ t=1800000000001"}, {2, "~ t=1800000000002"}});
  EXPECT_GE(t_.Decide(/*relisted=*/false).wake_unix_ms, kTestNowMs + 1000);
}

TEST_F(PoolStatusTest, AConditionIsWrittenAtOnceWithTheOldCounts) {
  t_.Block("10.55.0.0/26", "web", Held(1, 3));
  SeenPool& pool = t_.world.pools.at("web");
  pool.pool->disabled = true;
  pool.meta.generation = 2;
  const auto status = Written();
  ASSERT_TRUE(status);
  EXPECT_EQ(crds::FindCondition(status->conditions, "Ready")->reason, "Disabled");
  EXPECT_EQ(crds::FindCondition(status->conditions, "Ready")->observed_generation, 2);
  EXPECT_EQ(crds::FindCondition(status->conditions, "Exhausted")->observed_generation, 2);
  EXPECT_EQ(status->used, 3U);
}

TEST_F(PoolStatusTest, TheTransitionTimeIsTheTimeOfTheTransition) {
  const std::string before =
      crds::FindCondition(t_.world.pools.at("web").status.conditions, "Ready")->last_transition_time;
  t_.now.unix_ms += 60'000;
  t_.world.pools.at("web").meta.generation = 2;
  const auto same = Written();
  ASSERT_TRUE(same);
  EXPECT_EQ(crds::FindCondition(same->conditions, "Ready")->last_transition_time, before);
  t_.world.pools.at("web").pool->disabled = true;
  const auto other = Written();
  ASSERT_TRUE(other);
  EXPECT_NE(crds::FindCondition(other->conditions, "Ready")->last_transition_time, before);
}

TEST_F(PoolStatusTest, ConditionsThatOtherProgramsWroteStay) {
  t_.world.pools.at("web").status.conditions.push_back({.type = "Example",
                                                        .status = "True",
                                                        .reason = "X",
                                                        .message = "",
                                                        .last_transition_time = "2027-01-01T00:00:00Z",
                                                        .observed_generation = 0});
  t_.world.pools.at("web").pool->disabled = true;
  t_.world.pools.at("web").meta.generation = 2;
  const auto status = Written();
  ASSERT_TRUE(status);
  EXPECT_NE(crds::FindCondition(status->conditions, "Example"), nullptr);
}

TEST_F(PoolStatusTest, EveryConditionOfBerthNamesTheNewestGeneration) {
  SeenPool& pool = t_.world.pools.at("web");
  pool.meta.generation = 7;
  crds::PoolStatus status = pool.status;
  Wanted<crds::PoolStatus> wanted;
  const auto each = [&](bool is_bad) {
    SetReclaiming(status, pool, is_bad ? 3 : 0, t_.now);
    SetScarce(status, pool, is_bad, t_.now);
    SetCounted(status, pool, is_bad, t_.now);
    wanted.status = status;
    SetContested(wanted,
                 pool,
                 is_bad ? std::vector<ContestedAddress>(1) : std::vector<ContestedAddress>(),
                 {.counts_written = {}, .now = t_.now});
    status = wanted.status;
  };
  const auto generations = [&] {
    std::string text;
    for (const std::string_view type :
         {kReclaimingCondition, crds::kScarceCondition, kCountedCondition, kContestedCondition}) {
      const crds::Condition* condition = crds::FindCondition(status.conditions, type);
      text += condition == nullptr ? "none " : std::to_string(condition->observed_generation) + " ";
    }
    return text;
  };
  each(/*is_bad=*/false);
  EXPECT_EQ(generations(), "none none none none ") << "what was never wrong is not mentioned";
  for (const bool is_bad : {true, false}) {
    each(is_bad);
    ++pool.meta.generation;
    each(is_bad);
    EXPECT_EQ(generations(), is_bad ? "8 8 8 8 " : "9 9 9 9 ") << is_bad;
  }
}

TEST_F(PoolStatusTest, CountsOfTheSpaceAreWrittenAsOftenAsThoseOfThePool) {
  t_.Block("10.55.0.0/26", "web", Held(1, 3));
  EXPECT_TRUE(t_.Decide(/*relisted=*/false).actions.empty());
  t_.now.steady += kCountsPeriod;
  WriteAll();
  EXPECT_EQ(t_.world.spaces.at("default").used, 3U);
  EXPECT_EQ(t_.world.spaces.at("default").free, 251U);
}

TEST(SpaceStatus, HasNewCountsIfItIsWrittenForAnotherReason) {
  const Now now{.unix_ms = kTestNowMs, .steady = SteadyTime(std::chrono::hours(1))};
  const Pace pace{.counts_written = now.steady, .now = now};
  const SpaceCounts counts{.total = 0, .used = 3, .free = 0};
  crds::Space accepting;
  accepting.accepted.push_back(
      {.pool = "web", .uid = "u", .subnet = ipam::PrefixOf("10.55.0.0/24"), .block_length = 26});
  EXPECT_TRUE(StatusOfSpace({}, accepting, counts, pace).has_new_counts);
  EXPECT_FALSE(StatusOfSpace({}, {}, counts, pace).has_new_counts);
}

TEST(PoolReadiness, EveryReasonTellsWhatToDo) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"disabled", true}});
  EXPECT_THAT(ReadinessOf(t.world.pools.at("web"), true, nullptr)->why.message,
              HasSubstr("set spec.disabled to false"));
  t.Pool("web", {{"subnet", "10.55.0.0/24"}}, {.is_deleting = true});
  EXPECT_THAT(ReadinessOf(t.world.pools.at("web"), true, nullptr)->why.message,
              HasSubstr("kubectl get ipblocks --field-selector spec.pool=web"));
}

TEST(PoolReadiness, IsUndecidedBeforeAcceptance) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}});
  EXPECT_FALSE(ReadinessOf(t.world.pools.at("web"), false, nullptr).has_value());
}

TEST(PoolReadiness, SaysThatThePoolIsBeingDeletedBeforeAnyOtherReason) {
  TestWorld t;
  t.Pool("web", {{"subnet", "nonsense"}, {"disabled", true}}, {.is_deleting = true});
  const Reason refused{.reason = "BlockSizeConflict", .message = ""};
  EXPECT_EQ(ReadinessOf(t.world.pools.at("web"), false, &refused)->why.reason, "Deleting");
}

// A pool's condition Contested, written again as pairs come and go.
class ContestedTest : public testing::Test {
 protected:
  // Returns what the condition says afterwards. `since`: how long ago counts or this text were written.
  std::string Set(std::size_t pairs, seconds since, std::size_t length = 10) {
    const std::vector<ContestedAddress> contested(pairs,
                                                  {.block = "b", .block_uid = "u", .text = std::string(length, 'x')});
    const Now now{.unix_ms = kTestNowMs, .steady = kNow};
    wanted_.wake = wake_;
    wanted_.has_new_counts = false;
    SetContested(wanted_, pool_, contested, {.counts_written = now.steady - since, .now = now});
    const crds::Condition* condition = crds::FindCondition(wanted_.status.conditions, kContestedCondition);
    return condition == nullptr ? "none" : condition->status + " " + condition->message;
  }
  static constexpr SteadyTime kNow{std::chrono::hours(1)};
  SeenPool pool_;
  Wanted<crds::PoolStatus> wanted_;
  std::optional<SteadyTime> wake_;  // when the status has to be decided again for another reason
};

TEST_F(ContestedTest, TheTextIsDecidedAgainNoLaterThanTheRestOfTheStatus) {
  Set(7, seconds(0));
  wake_ = kNow;
  Set(6, seconds(1));
  EXPECT_EQ(wanted_.wake, kNow);
}

TEST_F(ContestedTest, TheConditionIsWrittenAtOnceAndItsTextAsOftenAsCounts) {
  EXPECT_EQ(Set(0, seconds(0)), "none");
  const std::string of_seven = Set(7, seconds(0));
  EXPECT_TRUE(of_seven.starts_with("True ") && of_seven.ends_with("; and 2 more")) << of_seven;
  EXPECT_EQ(Set(6, seconds(1)), of_seven);
  EXPECT_TRUE(wanted_.wake.has_value());
  EXPECT_NE(Set(6, kCountsPeriod), of_seven);
  EXPECT_TRUE(wanted_.has_new_counts) << "the next waits as long again";
  EXPECT_TRUE(Set(0, seconds(0)).starts_with("False "));
}

TEST_F(ContestedTest, TheTextSaysHowManyMoreAddressesThereAreIfThereAreMore) {
  EXPECT_EQ(Set(5, seconds(0), 1), "True delete one pod of each pair: x; x; x; x; x");
  EXPECT_EQ(Set(6, kCountsPeriod, 1), "True delete one pod of each pair: x; x; x; x; x; and 1 more");
}

TEST_F(ContestedTest, TheTextNamesAsManyAddressesAsTheSchemaAllows) {
  const std::string message = Set(5, seconds(0), 1200);
  EXPECT_LE(message.size(), 4096U);
  EXPECT_TRUE(message.ends_with("; and 2 more")) << message;
}

}  // namespace
}  // namespace berth::reconciler
