// SPDX-License-Identifier: Apache-2.0
// Acceptance: which pools are accepted, which are refused with which reason, and when no pool may be accepted at all.
#include "reconciler/decide_acceptance.h"

#include <functional>
#include <map>
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
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> NamesIn(const std::vector<crds::AcceptedPool>& list) {
  std::vector<std::string> names;
  for (const crds::AcceptedPool& entry : list) names.push_back(entry.pool);
  return names;
}

Acceptance AcceptanceOf(const TestWorld& t) {
  std::vector<std::string> names;
  for (const auto& [name, pool] : t.world.pools) {
    if (pool.pool && pool.pool->space == "default") names.push_back(name);
  }
  const auto space = t.world.spaces.find("default");
  return DecideAcceptance(t.world,
                          "default",
                          names,
                          space == t.world.spaces.end() ? std::vector<crds::AcceptedPool>() : space->second.accepted);
}

struct AcceptanceCase {
  const char* name;
  std::function<void(TestWorld&)> given;
  Lines want_accepted;
  const char* want_refused;  // "<pool> <reason> <part of the message>"; empty: none is refused
};
class AcceptanceOfPools : public testing::TestWithParam<AcceptanceCase> {};

TEST_P(AcceptanceOfPools, FollowsTheRules) {
  const AcceptanceCase& c = GetParam();
  TestWorld t;
  c.given(t);
  const Acceptance got = AcceptanceOf(t);
  EXPECT_EQ(NamesIn(got.accepted), c.want_accepted);
  std::string refused;
  for (const auto& [pool, reason] : got.refused) refused += pool + " " + reason.reason + " " + reason.message;
  if (*c.want_refused == '\0') {
    EXPECT_EQ(refused, "");
    return;
  }
  const std::string want = c.want_refused;
  const std::size_t second = want.find(' ', want.find(' ') + 1);
  EXPECT_TRUE(refused.starts_with(want.substr(0, second))) << refused;
  EXPECT_THAT(refused, HasSubstr(want.substr(second + 1)));
}

const json kWeb = {{"subnet", "10.55.0.0/24"}};

const AcceptanceCase kAcceptanceCases[] = {
    {"AlonePoolIsTaken", [](TestWorld& t) { t.Pool("web", kWeb).Space("default", {}); }, {"web"}, ""},
    {"OverlapWithEqualSizesIsFine",
     [](TestWorld& t) { t.Pool("web", kWeb).Pool("more", {{"subnet", "10.55.0.0/16"}}).Space("default", {"web"}); },
     {"web", "more"},
     ""},
    {"OverlapWithAnotherSizeIsRefused",
     [](TestWorld& t) {
       t.Pool("web", kWeb).Pool("x", {{"subnet", "10.55.0.0/16"}, {"blockSize", 28}}).Space("default", {"web"});
     },
     {"web"},
     "x BlockSizeConflict overlaps pool web (10.55.0.0/24), which is cut into /26 blocks"},
    {"ThoseThatComeAfterARefusedPoolAreTaken",
     [](TestWorld& t) {
       t.Pool("web", kWeb).Pool("x", {{"subnet", "10.55.0.0/16"}, {"blockSize", 28}});
       t.Pool("y", {{"subnet", "10.56.0.0/16"}}).Pool("a", {{"subnet", "10.57.0.0/16"}}).Space("default", {"web"});
     },
     {"web", "a", "y"},
     "x BlockSizeConflict overlaps pool web (10.55.0.0/24), which is cut into /26 blocks"},
    {"TheRemedyNamesTheOthersSize",
     [](TestWorld& t) {
       t.Pool("web", kWeb).Pool("x", {{"subnet", "10.55.0.0/16"}, {"blockSize", 28}}).Space("default", {"web"});
     },
     {"web"},
     "x BlockSizeConflict create it with blockSize 26, or"},
    {"ASubnetAsLargeAsTheOthersBlocksCanHaveTheOthersSize",
     [](TestWorld& t) {
       t.Pool("web", kWeb).Pool("x", {{"subnet", "10.55.0.0/26"}, {"blockSize", 28}}).Space("default", {"web"});
     },
     {"web"},
     "x BlockSizeConflict create it with blockSize 26, or"},
    {"ASubnetSmallerThanTheOthersBlocksIsToldToGoElsewhere",
     [](TestWorld& t) { t.Pool("web", kWeb).Pool("x", {{"subnet", "10.55.0.0/28"}}).Space("default", {"web"}); },
     {"web"},
     "x BlockSizeConflict create it with another subnet or space"},
    {"EffectiveSizesCountNotWrittenOnes",
     [](TestWorld& t) {
       t.Pool("web", {{"subnet", "10.55.0.0/28"}})
           .Pool("x", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}})
           .Space("default", {"web"});
     },
     {"web", "x"},
     ""},
    {"AnotherSizeBesideIsFine",
     [](TestWorld& t) {
       t.Pool("web", kWeb).Pool("x", {{"subnet", "10.55.1.0/24"}, {"blockSize", 28}}).Space("default", {"web"});
     },
     {"web", "x"},
     ""},
    {"TheOlderOfTwoComesFirst",
     [](TestWorld& t) {
       t.Pool("a", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}}, {.created = "2027-01-01T00:00:05Z"})
           .Pool("b", kWeb, {.created = "2027-01-01T00:00:04Z"})
           .Space("default", {});
     },
     {"b"},
     "a BlockSizeConflict overlaps pool b"},
    {"TheNameDecidesBetweenTwins",
     [](TestWorld& t) {
       t.Pool("b", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}}).Pool("a", kWeb).Space("default", {});
     },
     {"a"},
     "b BlockSizeConflict overlaps pool a"},
    {"OneThatWaitsForItsFinalizerKeepsItsTurn",
     [](TestWorld& t) {
       t.Pool("a", kWeb, {.has_finalizer = false})
           .Pool("b", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}})
           .Space("default", {});
     },
     {},
     "b BlockSizeConflict overlaps pool a"},
    {"OneThatHandsOutAlreadyComesBeforeOlderOnes",
     [](TestWorld& t) {
       t.Pool("a", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}}, {.created = "2020-01-01T00:00:00Z"})
           .Pool("b", kWeb, {.is_ready = true})
           .Space("default", {});
     },
     {"b"},
     "a BlockSizeConflict overlaps pool b"},
    {"ADeletedPoolIsNotTaken",
     [](TestWorld& t) { t.Pool("web", kWeb, {.is_deleting = true}).Space("default", {}); },
     {},
     ""},
    {"ADeletedPoolStaysInTheListWhileABlockOfItExists",
     [](TestWorld& t) {
       t.Pool("web", kWeb, {.is_deleting = true}).Space("default", {"web"}).Block("10.55.0.0/26", "web", {});
     },
     {"web"},
     ""},
    {"ADeletedPoolLeavesTheListWithItsLastBlock",
     [](TestWorld& t) { t.Pool("web", kWeb, {.is_deleting = true}).Space("default", {"web"}); },
     {},
     ""},
    {"ADeletedPoolHoldsItsRangeAgainstOthers",
     [](TestWorld& t) {
       t.Pool("web", kWeb, {.is_deleting = true})
           .Pool("x", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}})
           .Space("default", {"web"})
           .Block("10.55.0.0/26", "web", {{1, kHeldEntry}});
     },
     {"web"},
     "x BlockSizeConflict overlaps pool web"},
    {"AnUnreadableBlockOfUnknownOwnerCountsAsTheDeletedPools",
     [](TestWorld& t) {
       t.Pool("web", kWeb, {.is_deleting = true}).Space("default", {"web"}).UnreadableBlock("10.55.0.0-26", "");
     },
     {"web"},
     ""},
    {"AnUnreadableBlockElsewhereDoesNot",
     [](TestWorld& t) {
       t.Pool("web", kWeb, {.is_deleting = true}).Space("default", {"web"}).UnreadableBlock("10.66.0.0-26", "");
     },
     {},
     ""},
    {"ABlockLeftOverWithAnotherSizeIsInTheWay",
     [](TestWorld& t) {
       t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}})
           .Space("default", {})
           .Block("10.55.0.0/26", "gone", {{1, kHeldEntry}});
     },
     {},
     "x BlockSizeConflict block 10.55.0.0-26, left by an earlier pool, overlaps"},
    {"ABlockLeftOverWithTheSameSizeIsNot",
     [](TestWorld& t) { t.Pool("web", kWeb).Space("default", {}).Block("10.55.0.0/26", "gone", {{1, kHeldEntry}}); },
     {"web"},
     ""},
    {"ABlockOfAnotherSpaceIsNot",
     [](TestWorld& t) {
       t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}})
           .Space("default", {})
           .Block("10.55.0.0/26", "gone", {}, {.space = "blue"});
     },
     {"x"},
     ""},
    {"APoolMadeAgainUnderTheNameIsAnotherPool",
     [](TestWorld& t) {
       t.Pool("web", kWeb)
           .SpaceWith(
               "default",
               json::array(
                   {{{"pool", "web"}, {"uid", "uid-of-the-former"}, {"subnet", "10.55.0.0/24"}, {"blockSize", 28}}}),
               {},
               {"ipam.berth.dev/drain"});
       t.Block("10.55.0.0/28", "web", {{1, kHeldEntry}}, {.pool_uid = "uid-of-the-former"});
     },
     {"web"},
     "web BlockSizeConflict overlaps pool web (10.55.0.0/24), which is cut into /28 blocks"},
    {"AWrongPoolIsNotTaken",
     [](TestWorld& t) {
       t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"ranges", {"10.55.0.2-10.55.0.9", "10.55.0.5-10.55.0.6"}}})
           .Space("default", {});
     },
     {},
     "x InvalidRange overlaps"},
    {"NothingLeftToHandOut",
     [](TestWorld& t) {
       t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"exclude", {"10.55.0.0/24"}}}).Space("default", {});
     },
     {},
     "x NothingAssignable leave no address for pods"},
    {"RangeOutsideTheSubnet",
     [](TestWorld& t) { t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"ranges", {"10.66.0.1"}}}).Space("default", {}); },
     {},
     "x InvalidRange not inside spec.subnet"},
    {"ExcludeOutsideTheSubnet",
     [](TestWorld& t) { t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"exclude", {"10.66.0.1"}}}).Space("default", {}); },
     {},
     "x InvalidExclude not inside spec.subnet"},
    {"GatewayOfTheOtherFamily",
     [](TestWorld& t) { t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"gateway", "2001:db8::1"}}).Space("default", {}); },
     {},
     "x InvalidGateway not IPv4"},
    {"DisabledPoolsAreTakenSoThatNobodyElseGetsTheRange",
     [](TestWorld& t) { t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"disabled", true}}).Space("default", {}); },
     {"web"},
     ""},
};
INSTANTIATE_TEST_SUITE_P(Table, AcceptanceOfPools, testing::ValuesIn(kAcceptanceCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Acceptance, AFullSpaceSaysSo) {
  TestWorld t;
  t.Pool("web", kWeb);
  json list = json::array();
  for (int i = 0; i < 1024; ++i) {
    const std::string name = "p" + std::to_string(i);
    const std::string subnet = "10." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0/24";
    t.Pool(name, {{"subnet", subnet}}, {.is_ready = true});
    list.push_back({{"pool", name}, {"uid", "uid-of-" + name}, {"subnet", subnet}, {"blockSize", 26}});
  }
  t.SpaceWith("default", list, {}, {"ipam.berth.dev/drain"});
  const Acceptance got = AcceptanceOf(t);
  EXPECT_EQ(got.accepted.size(), 1024U);
  ASSERT_TRUE(got.refused.contains("web"));
  EXPECT_EQ(got.refused.at("web").reason, "SpaceFull");
}

TEST(Acceptance, AnUnreadablePoolIsRefusedWithTheFieldInTheReason) {
  TestWorld t;
  t.Pool("x", {{"subnet", "10.55.0.0/24"}, {"ranges", {"10.55.0.9-10.55.0.3"}}});
  const auto why = WhyInvalid(t.world.pools.at("x"));
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->reason, "InvalidRange");
  EXPECT_THAT(why->message, testing::StartsWith("spec.ranges"));
}

TEST(Acceptance, ANewPoolGetsItsFinalizerFirstAndItsSpaceIsCreated) {
  TestWorld t;
  t.Pool("web", kWeb, {.has_finalizer = false});
  EXPECT_EQ(t.Lines(/*relisted=*/false), (Lines{"pool web finalizers=[ipam.berth.dev/drain]", "create space default"}));
}

TEST(Acceptance, NoPoolIsAcceptedUnlessTheWorldIsRelisted) {
  TestWorld t;
  t.Pool("web", kWeb).Space("default", {});
  EXPECT_EQ(t.Lines(/*relisted=*/false), Lines{"relist for IPSpace/default"});
  EXPECT_EQ(t.Lines(/*relisted=*/true), Lines{"space default accepted=[web] withheld=[]"});
}

TEST(Acceptance, ASpaceWithoutOurFinalizerGetsItBeforeItAcceptsAnything) {
  TestWorld t;
  t.Pool("web", kWeb).SpaceWith("default", json::array(), {}, {});
  EXPECT_EQ(t.Lines(/*relisted=*/true), Lines{"space default finalizers=[ipam.berth.dev/drain]"});
}

TEST(Acceptance, ASpaceThatIsBeingDeletedWithoutOurFinalizerAcceptsNoPool) {
  TestWorld t;
  t.Pool("web", kWeb).SpaceWith("default", json::array(), {}, {"example.org/other"}, /*is_deleting=*/true);
  EXPECT_THAT(t.Lines(/*relisted=*/true), IsEmpty());
}

TEST(Acceptance, ADeletedSpaceAcceptsPoolsUntilItIsEmpty) {
  TestWorld t;
  t.Pool("old", {{"subnet", "10.66.0.0/24"}}, {.is_ready = true}).Pool("web", kWeb);
  t.Space("default", {"old"});
  t.world.spaces.at("default").meta.deletion_timestamp = "2027-01-02T00:00:00Z";
  EXPECT_THAT(t.Lines(/*relisted=*/true), Contains("space default accepted=[old,web] withheld=[]"));
}

TEST(Acceptance, OnlyAnAcceptedPoolBecomesReady) {
  TestWorld t;
  t.Pool("web", kWeb).Space("default", {"web"});
  EXPECT_THAT(t.Lines(/*relisted=*/false), Contains("pool web ready=True/Accepted withheld=[]"));
  t.Space("default", {});
  EXPECT_THAT(t.Lines(/*relisted=*/true), Not(Contains(HasSubstr("ready=True"))));
}

TEST(Acceptance, APoolIsNotReadyIfTheListHasItsNameWithAnotherUid) {
  TestWorld t;
  t.Pool("web", kWeb).Space("default", {"web"});
  t.world.spaces.at("default").accepted[0].uid = "uid-of-the-former";
  EXPECT_THAT(t.Lines(/*relisted=*/true), Not(Contains(HasSubstr("ready=True"))));
}

TEST(Acceptance, OneWriteSetsReadyAndTheWithheldAddresses) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"gateway", "10.55.0.1"}}).Space("default", {"web"});
  t.Reservation("r", {"10.55.0.9", "10.66.0.1"});
  EXPECT_THAT(t.Lines(/*relisted=*/false), Contains("pool web ready=True/Accepted withheld=[10.55.0.1,10.55.0.9]"));
}

TEST(Acceptance, ADisabledPoolIsNotReady) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"disabled", true}}, {.is_ready = true}).Space("default", {"web"});
  EXPECT_THAT(t.Lines(/*relisted=*/false), Contains("pool web ready=False/Disabled withheld=[]"));
}

TEST(Acceptance, AnAcceptedPoolThatBecomesInvalidStaysInTheListButIsNotReady) {
  TestWorld t;
  t.Pool("web", kWeb).Space("default", {"web"});
  t.Pool("web", {{"subnet", "10.55.0.0/24"}, {"exclude", {"10.55.0.0/24"}}}, {.is_ready = true});
  EXPECT_THAT(t.Lines(/*relisted=*/true), Contains("pool web ready=False/NothingAssignable withheld=[]"));
  EXPECT_EQ(NamesIn(AcceptanceOf(t).accepted), Lines{"web"});
}

// A smaller subnet cannot have blocks of that size.
TEST(Acceptance, TheRemedyForABlockLeftOverNamesItsSizeUnlessTheSubnetIsSmaller) {
  const std::string another_size = ", or delete this pool and create it with blockSize 26";
  for (const auto& [subnet, want] : std::map<std::string, std::string>{
           {"10.55.0.0/24", another_size}, {"10.55.0.0/26", another_size}, {"10.55.0.0/28", ""}}) {
    TestWorld t;
    t.Pool("x", {{"subnet", subnet}, {"blockSize", 28}}).Space("default", {}).Block("10.55.0.0/26", "gone", {});
    EXPECT_THAT(AcceptanceOf(t).refused.at("x").message,
                testing::EndsWith("(kubectl get ipblock 10.55.0.0-26)" + want));
  }
}

TEST(Acceptance, AReadyPoolIsNotRefusedUnlessTheWorldIsRelisted) {
  TestWorld t;
  t.Pool("old", kWeb).Pool("web", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}}, {.is_ready = true});
  t.Space("default", {"old"});
  const Lines stale = t.Lines(/*relisted=*/false);
  EXPECT_THAT(stale, Not(Contains(HasSubstr("pool web ready=False"))));
  EXPECT_THAT(stale, Contains("relist for IPPool/web"));
  EXPECT_THAT(t.Lines(/*relisted=*/true), Contains("pool web ready=False/BlockSizeConflict withheld=[]"));
}

TEST(Acceptance, ADeletedPoolSaysAtOnceThatItIsBeingDeleted) {
  TestWorld t;
  t.Pool("web", kWeb, {.is_deleting = true, .is_ready = true}).Space("default", {"web"});
  t.Block("10.55.0.0/26", "web", {{1, kHeldEntry}});
  EXPECT_THAT(t.Lines(/*relisted=*/false), Contains("pool web ready=False/Deleting withheld=[]"));
}

TEST(Acceptance, AnAcceptedPoolGetsALostFinalizerBack) {
  TestWorld t;
  t.Pool("web", kWeb, {.has_finalizer = false, .is_ready = true}).Space("default", {"web"});
  EXPECT_THAT(t.Lines(/*relisted=*/false), Contains("pool web finalizers=[ipam.berth.dev/drain]"));
}

TEST(Acceptance, ADeletedPoolGetsNoFinalizer) {
  TestWorld t;
  t.Pool("web", kWeb, {.has_finalizer = false, .is_deleting = true}).Space("default", {"web"});
  EXPECT_THAT(t.Lines(/*relisted=*/false), Not(Contains(HasSubstr("finalizers"))));
}

TEST(Acceptance, NoPoolLeavesTheListUnlessTheWorldIsRelisted) {
  TestWorld t;
  t.Pool("web", kWeb).Space("default", {"web"});
  t.world.pools.clear();  // as a late watch may show it
  EXPECT_EQ(t.Lines(/*relisted=*/false), Lines{"relist for IPSpace/default"});
  EXPECT_EQ(t.Lines(/*relisted=*/true), Lines{"space default accepted=[] withheld=[]"});
}

}  // namespace
}  // namespace berth::reconciler
