// SPDX-License-Identifier: Apache-2.0
// IPAllocations: when the controller makes one, when it deletes one, and that it writes nothing twice.
#include "reconciler/decide_allocations.h"

#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

const SeenPod kLives{.name_space = "default", .name = "web", .uid = "u-1", .node = "n1"};
const SeenPod kEnded{.name_space = "default", .name = "web", .uid = "u-1", .node = "n1", .is_terminal = true};
const SeenPod kCascades{.name_space = "default", .name = "web", .uid = "u-1", .node = "n1", .is_cascading = true};
const SeenAllocation kThere{.name_space = "default", .name = "web-x", .uid = "a", .attachment = "x"};
const SeenAllocation kGoing{
    .name_space = "default", .name = "web-x", .uid = "a", .attachment = "x", .is_deleting = true};

struct RuleCase {
  const char* name;
  AllocationFacts facts;
  AllocationRuling want;
};
class AllocationRule : public testing::TestWithParam<RuleCase> {};

TEST_P(AllocationRule, DecidesFromTheFactsOfOneAttachment) {
  EXPECT_EQ(RuleOnAllocation(GetParam().facts), GetParam().want);
}

const RuleCase kRuleCases[] = {
    {"New", {.is_held = true, .is_settled = true, .pod = &kLives}, AllocationRuling::kMake},
    {"TooNew", {.is_held = true, .pod = &kLives}, AllocationRuling::kLater},
    {"IsThere", {.is_held = true, .is_settled = true, .pod = &kLives, .object = &kThere}, AllocationRuling::kNothing},
    {"IsGoing", {.is_held = true, .is_settled = true, .pod = &kLives, .object = &kGoing}, AllocationRuling::kNothing},
    {"LacksAFamily",
     {.is_held = true, .is_settled = true, .pod = &kLives, .object = &kThere, .lacks_family = true},
     AllocationRuling::kDelete},
    {"LacksAFamilyForAMoment",
     {.is_held = true, .pod = &kLives, .object = &kThere, .lacks_family = true},
     AllocationRuling::kLater},
    {"LacksAFamilyAndIsGoing",
     {.is_held = true, .is_settled = true, .pod = &kLives, .object = &kGoing, .lacks_family = true},
     AllocationRuling::kNothing},
    {"PodIsUnknown", {.is_held = true, .is_settled = true}, AllocationRuling::kNothing},
    {"PodHasEnded", {.is_held = true, .is_settled = true, .pod = &kEnded}, AllocationRuling::kNothing},
    {"PodCascades",
     {.is_held = true, .is_settled = true, .pod = &kLives, .is_cascading = true},
     AllocationRuling::kNothing},
    {"PodCascadesAndItIsThere",
     {.is_held = true, .pod = &kLives, .is_cascading = true, .object = &kThere},
     AllocationRuling::kDelete},
    {"PodCascadesAndItIsGoing",
     {.is_held = true, .is_settled = true, .pod = &kLives, .is_cascading = true, .object = &kGoing},
     AllocationRuling::kNothing},
    {"GivenBack", {.object = &kThere}, AllocationRuling::kDelete},
    {"GivenBackWhileItIsGoing", {.object = &kGoing}, AllocationRuling::kNothing},
    {"GivenBackBeforeItWasMade", {}, AllocationRuling::kNothing},
};
INSTANTIATE_TEST_SUITE_P(Table, AllocationRule, testing::ValuesIn(kRuleCases),
                         [](const auto& c) { return std::string(c.param.name); });

constexpr char kAttachment[] = "0123456789ab-0123456789abcdef";
constexpr char kName[] = "web-0123456789ab-0123456789abcdef";

class AllocationsTest : public testing::Test {
 protected:
  AllocationsTest() {
    world_.decider = Decider({.keeps_allocations = true});
    world_.world.knows_holders = true;
    world_.world.knows_allocations = true;
    world_.world.pods.Put(kLives, {});
  }
  static std::string Entry(std::int64_t since_ms) {
    return std::string("default/web u-1 ") + kAttachment + " i=eth0 t=" + std::to_string(since_ms);
  }
  void HoldFirst() {
    world_.Block("10.55.0.0/26", "web", {{3, Entry(kTestNowMs)}});
    Lines();
  }
  void HoldSecond() {
    world_.Block("2001:db8::/122", "web6", {{5, Entry(kTestNowMs)}});
    Lines();
  }
  void Hold() {
    HoldFirst();
    HoldSecond();
  }
  void GiveBack() {
    world_.Block("10.55.0.0/26", "web", {});
    world_.Block("2001:db8::/122", "web6", {});
  }
  void Make() {
    world_.world.allocations.Put({.name_space = "default", .name = kName, .uid = "a", .attachment = kAttachment});
  }
  // The actions about IPAllocations.
  std::vector<std::string> Lines() {
    auto lines = world_.Lines(/*relisted=*/false);
    std::erase_if(lines,
                  [](const std::string& line) { return !line.starts_with("make ") && !line.starts_with("unmake "); });
    world_.world.pods.ForgetTouched();
    world_.world.allocations.ForgetTouched();
    return lines;
  }
  void Pass(seconds time) {
    world_.now.steady += time;
    world_.now.unix_ms += std::chrono::milliseconds(time).count();
  }

  TestWorld world_;
};

using Texts = std::vector<std::string>;
const Texts kMade = {std::string("make default/") + kName + " [10.55.0.3,2001:db8::5]"};
const Texts kUnmade = {std::string("unmake default/") + kName};

TEST_F(AllocationsTest, TheControllerMakesOneObjectForBothFamiliesAfterTwoSeconds) {
  Hold();
  EXPECT_EQ(Lines(), Texts{});
  Pass(seconds(2));
  EXPECT_EQ(Lines(), kMade);
  Make();
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, AnObjectThatLacksTheSecondFamilyIsReplaced) {
  HoldFirst();
  world_.world.allocations.Put(
      {.name_space = "default", .name = kName, .uid = "a", .attachment = kAttachment, .lacks_ipv6 = true});
  Pass(seconds(4));
  EXPECT_EQ(Lines(), Texts{});
  HoldSecond();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), kUnmade);
  world_.world.allocations.Remove(std::string("default/") + kName);
  EXPECT_EQ(Lines(), Texts{});
  Pass(seconds(5));
  EXPECT_EQ(Lines(), kMade);
}

TEST_F(AllocationsTest, AnObjectThatTheWatchShowsLateAndThatLacksAFamilyIsReplacedAtOnce) {
  Hold();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), kMade);
  world_.world.allocations.Put(
      {.name_space = "default", .name = kName, .uid = "a", .attachment = kAttachment, .lacks_ipv6 = true});
  EXPECT_EQ(Lines(), kUnmade) << "nobody deleted it: there is nothing to wait for";
}

// A client with the token of node n2 may write anything into the blocks of n2.
TEST_F(AllocationsTest, AnEntryThatAnotherNodeWroteWithThePodsNameDoesNotCount) {
  HoldFirst();
  world_.Block("2001:db8::/122", "web6", {{5, Entry(kTestNowMs)}}, {.node = "n2"});
  Lines();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{std::string("make default/") + kName + " [10.55.0.3]"});
  world_.world.allocations.Put(
      {.name_space = "default", .name = kName, .uid = "a", .attachment = kAttachment, .lacks_ipv6 = true});
  Pass(seconds(10));
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, APodOfLessThanTwoSecondsGetsNoObject) {
  Hold();
  Lines();
  GiveBack();
  Pass(seconds(5));
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, TheControllerDeletesTheObjectWithTheLastEntry) {
  Hold();
  Make();
  EXPECT_EQ(Lines(), Texts{});
  world_.Block("10.55.0.0/26", "web", {});
  EXPECT_EQ(Lines(), Texts{});
  GiveBack();
  EXPECT_EQ(Lines(), kUnmade);
  world_.world.allocations.Remove(std::string("default/") + kName);
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, AnObjectDeletedWhileItsPodLivesIsMadeAgain) {
  Hold();
  Make();
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{});
  world_.world.allocations.Remove(std::string("default/") + kName);
  EXPECT_EQ(Lines(), Texts{});
  Pass(seconds(5));
  EXPECT_EQ(Lines(), kMade);
}

TEST_F(AllocationsTest, AnObjectThatTheCollectorDeletesIsNotMadeAgainThoughTheWatchOfPodsLags) {
  Hold();
  Make();
  Pass(seconds(60));
  Lines();
  world_.world.allocations.Remove(std::string("default/") + kName);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Lines(), Texts{});
    Pass(seconds(1));
  }
  world_.world.pods.Remove("default/web", {});
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, TheControllerWaitsForTheSecondFamilyThoughTheFirstEntryIsOld) {
  HoldFirst();
  Pass(seconds(1));
  HoldSecond();
  Pass(seconds(1));
  EXPECT_EQ(Lines(), Texts{});
  Pass(seconds(1));
  EXPECT_EQ(Lines(), kMade);
}

TEST_F(AllocationsTest, TheObjectStaysWhileTheBlockCannotBeRead) {
  Hold();
  Make();
  Lines();
  for (const char* name : {"10.55.0.0-26", "2001-db8---122"}) world_.UnreadableBlock(name, "");
  EXPECT_EQ(Lines(), Texts{});
  GiveBack();
  EXPECT_EQ(Lines(), kUnmade);
}

TEST_F(AllocationsTest, TheObjectOfAPodInAForegroundDeletionIsDeletedAndNotMadeAgain) {
  Hold();
  Make();
  Pass(seconds(60));
  Lines();
  world_.world.pods.Put(kCascades, {});
  EXPECT_EQ(Lines(), kUnmade);
  world_.world.allocations.Remove(std::string("default/") + kName);
  EXPECT_EQ(Lines(), Texts{});
  world_.world.pods.Put(kLives, {});
  Pass(seconds(5));
  EXPECT_EQ(Lines(), kMade);
}

// A Deployment is deleted in the foreground: the garbage collector reaches its pods one after another.
TEST_F(AllocationsTest, TheObjectIsDeletedOnceOtherPodsOfTheOwnerAreDeletedInTheForeground) {
  SeenPod lives = kLives;
  lives.owner = 7;
  world_.world.pods.Put(lives, {});
  Hold();
  Make();
  Pass(seconds(60));
  Lines();
  SeenPod other = kCascades;
  other.owner = 7;
  for (const char* name : {"a", "b"}) {
    other.name = other.uid = name;
    world_.world.pods.Put(other, {});
  }
  EXPECT_EQ(Lines(), Texts{}) << "two may be deleted so, and it lives on";
  other.name = other.uid = "c";
  world_.world.pods.Put(other, {});
  EXPECT_EQ(Lines(), kUnmade);
  world_.world.allocations.Remove(std::string("default/") + kName);
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{});
  world_.world.pods.Remove("default/c", {});
  Lines();
  Pass(seconds(5));
  EXPECT_EQ(Lines(), kMade) << "it has outlived the cascade";
}

TEST_F(AllocationsTest, APodThatTheWatchShowsLateGetsItsObjectThen) {
  world_.world.pods.Remove("default/web", {});
  Hold();
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{});
  world_.world.pods.Put(kLives, {});
  EXPECT_EQ(Lines(), kMade);
}

TEST_F(AllocationsTest, AnObjectWithoutEntriesFromBeforeTheStartIsDeleted) {
  Make();
  EXPECT_EQ(Lines(), kUnmade);
}

TEST_F(AllocationsTest, AnObjectWhoseNameHasNoAttachmentIsNotDeleted) {
  world_.world.allocations.Put({.name_space = "default", .name = "notes", .uid = "b"});
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, NothingIsDoneBeforeTheObjectsAreListed) {
  world_.world.knows_allocations = false;
  Hold();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{});
  world_.world.knows_allocations = true;
  EXPECT_EQ(Lines(), kMade);
}

// The watch of IPAllocations may show the objects before the controller knows who holds addresses.
TEST_F(AllocationsTest, AnObjectFromBeforeTheHoldersWereKnownIsDeletedThen) {
  world_.world.knows_holders = false;
  Make();
  EXPECT_EQ(Lines(), Texts{});
  world_.world.knows_holders = true;
  EXPECT_EQ(Lines(), kUnmade);
}

TEST_F(AllocationsTest, AnEntryWithoutAPodHidesNoEntryBehindIt) {
  const std::string nobody = std::string("-/- - ") + kAttachment + " i=eth0 t=1";
  world_.Block("10.55.0.0/26", "web", {{1, nobody}, {3, Entry(kTestNowMs)}});
  Lines();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{std::string("make default/") + kName + " [10.55.0.3]"});
  Make();
  Lines();
  world_.Block("10.55.0.0/26", "web", {});
  EXPECT_EQ(Lines(), kUnmade);
}

TEST_F(AllocationsTest, AnEntryOfAnotherPodOfTheNameHidesNoEntryBehindIt) {
  std::string earlier = Entry(kTestNowMs);
  earlier.replace(earlier.find("u-1"), 3, "u-0");
  world_.Block("10.55.0.0/26", "web", {{1, earlier}, {3, Entry(kTestNowMs)}});
  Lines();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{std::string("make default/") + kName + " [10.55.0.3]"});
}

TEST_F(AllocationsTest, AnEntryWithoutAUidDoesNotCount) {
  std::string unknown = Entry(kTestNowMs);
  unknown.replace(unknown.find("u-1"), 3, "-");
  world_.Block("10.55.0.0/26", "web", {{3, unknown}});
  Lines();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(AllocationsTest, AnEntryThatAnotherNodeWroteHidesNoEntryBehindIt) {
  world_.Block("10.55.0.0/26", "web", {{3, Entry(kTestNowMs)}}, {.node = "n2"});
  HoldSecond();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{std::string("make default/") + kName + " [2001:db8::5]"});
}

TEST_F(AllocationsTest, AnObjectThatChangedHidesNoDeletedObjectBehindIt) {
  Hold();
  Make();
  Pass(seconds(60));
  Lines();
  world_.world.allocations.Put({.name_space = "another", .name = kName, .uid = "b", .attachment = kAttachment});
  world_.world.allocations.Remove(std::string("default/") + kName);
  EXPECT_EQ(Lines(), Texts{std::string("unmake another/") + kName});
  Pass(seconds(4));
  EXPECT_EQ(Lines(), Texts{std::string("unmake another/") + kName}) << "the watch of pods may lag";
  world_.world.allocations.Remove(std::string("another/") + kName);
  Pass(seconds(1));
  EXPECT_EQ(Lines(), kMade);
}

TEST_F(AllocationsTest, AnObjectListsItsAddressesInOrder) {
  world_.Block("10.55.0.0/26", "web", {{3, Entry(kTestNowMs)}});
  world_.Block("9.0.0.0/26", "web", {{3, Entry(kTestNowMs)}});
  Lines();
  Pass(seconds(2));
  EXPECT_EQ(Lines(), Texts{std::string("make default/") + kName + " [9.0.0.3,10.55.0.3]"});
}

class ManyAllocationsTest : public AllocationsTest {
 protected:
  ManyAllocationsTest() {
    PutBlocks();
    Lines();
    Pass(seconds(2));
  }

 private:
  void PutBlocks();
};

void ManyAllocationsTest::PutBlocks() {
  for (int block = 0; block < 4; ++block) {
    std::map<ipam::BlockOffset, std::string> entries;
    for (int i = 0; i < 64; ++i) {
      const std::string number = std::to_string(1000 + block * 64 + i);
      world_.world.pods.Put({.name_space = "default", .name = "p" + number, .uid = "u-" + number, .node = "n1"}, {});
      entries[static_cast<ipam::BlockOffset>(i)] =
          "default/p" + number + " u-" + number + " 0123456789ab-000000000000" + number + " i=eth0 t=1";
    }
    world_.Block("10.55.0." + std::to_string(block * 64) + "/26", "web", entries);
  }
}

TEST_F(ManyAllocationsTest, AreMadeInSeveralPasses) {
  std::set<std::string> made;
  for (int pass = 0; pass < 3; ++pass) {
    const auto lines = Lines();
    EXPECT_EQ(lines.size(), kAllocationsPerPass);
    made.insert(lines.begin(), lines.end());
  }
  EXPECT_EQ(made.size(), 256U) << "all have their turn, though none was made";
  EXPECT_EQ(world_.Decide(/*relisted=*/false).wake_steady, world_.now.steady + std::chrono::milliseconds(100));
}

TEST_F(ManyAllocationsTest, AreAsManyInAPassAsWithoutOtherActions) {
  world_.Pool("web", {{"subnet", "10.55.0.0/24"}});
  const auto actions = world_.Decide(/*relisted=*/false).actions;
  const auto made = static_cast<std::size_t>(std::ranges::count_if(
      actions, [](const Action& action) { return std::holds_alternative<CreateAllocation>(action); }));
  EXPECT_GT(actions.size(), made);
  EXPECT_EQ(made, kAllocationsPerPass);
}

TEST_F(ManyAllocationsTest, AddNoActionBeforeTheirBackOffEnds) {
  const Error refused{.code = ErrorCode::kForbidden, .message = "quota", .details = {}, .retry_after = seconds(20)};
  for (int pass = 0; pass < 3; ++pass) {
    for (const Action& action : world_.Decide(/*relisted=*/false).actions) {
      static_cast<void>(world_.state.backoff.Failed(KeyOf(action), refused, world_.now.steady));
    }
  }
  Decision decision = world_.Decide(/*relisted=*/false);
  EXPECT_TRUE(decision.actions.empty());
  ASSERT_TRUE(decision.wake_steady.has_value());
  EXPECT_GE(*decision.wake_steady, world_.now.steady + seconds(20));
  Pass(seconds(21));
  EXPECT_EQ(Lines().size(), kAllocationsPerPass);
}

// A client that may write a block may write these entries; the API server would refuse an IPAllocation for them.
TEST_F(AllocationsTest, AnAttachmentWithMoreEntriesThanAnObjectCanListGetsNone) {
  std::map<ipam::BlockOffset, std::string> entries;
  for (ipam::BlockOffset offset = 1; offset <= crds::kAllocationAddressesMax; ++offset) {
    entries[offset] = Entry(kTestNowMs);
  }
  world_.Block("10.55.0.0/26", "web", entries);
  Lines();
  Pass(seconds(3));
  EXPECT_EQ(Lines().size(), 1U);
  entries[crds::kAllocationAddressesMax + 1] = Entry(kTestNowMs);
  world_.Block("10.55.0.0/26", "web", entries);
  Lines();
  Pass(seconds(3));
  EXPECT_EQ(Lines(), Texts{});
}

}  // namespace
}  // namespace berth::reconciler
