// SPDX-License-Identifier: Apache-2.0
// Tests Compare, and how a foreign agent changes a state.
#include "agent_core/observe.h"

#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

Now AfterBoot(std::chrono::seconds seconds) { return {.steady = SteadyTime(seconds), .since_boot = seconds}; }

// Version 7: a1 holds .0, and .1 and .2 are on standby.
ipam::Block Expected7() {
  ipam::Block block = EmptyBlock(*TestPoolView());
  block.resource_version = "7";
  block.agent = "m-me.1";
  block.allocations[0] = EntryText("a1");
  block.standby = {1, 2};
  return block;
}

BlockState StateOf(const ipam::Block& block) {
  BlockState state;
  state.view = std::make_shared<const ipam::Block>(block);
  return state;
}

// Returns for example "restore 0: a1, not -; vanished a1".
std::string ShownComparison(const Comparison& comparison) {
  std::string shown;
  const auto add = [&shown](const std::string& text) { shown += (shown.empty() ? "" : "; ") + text; };
  for (const auto& [offset, one] : comparison.to_restore) {
    add("restore " + std::to_string(offset) + ": " + ShownEntry(one.wanted) + ", not " + ShownEntry(one.found));
  }
  for (const std::string& text : comparison.noticed.vanished) add("vanished " + ShownEntry(text));
  for (const std::string& text : comparison.noticed.in_use) add("in use " + ShownEntry(text));
  for (const std::string& text : comparison.noticed.freed) add("freed " + ShownEntry(text));
  return shown;
}

struct CompareCase {
  const char* name;
  const char* expected;  // entry at .0
  const char* seen;      // entry at .0
  const char* want;
  const char* version = "8";
  std::function<void(BlockState&, ipam::Block& seen)> arrange = [](auto&, auto&) {};
  friend void PrintTo(const CompareCase& one, std::ostream* out) { *out << one.name; }
};
class SeenBlock : public testing::TestWithParam<CompareCase> {};

// Only the network namespace of a1 exists.
TEST_P(SeenBlock, IsComparedWithWhatWasExpected) {
  const CompareCase& param = GetParam();
  ipam::Block expected = Expected7();
  expected.allocations.erase(0);
  if (*param.expected != '-') expected.allocations[0] = EntryText(param.expected);
  ipam::Block seen = expected;
  seen.resource_version = param.version;
  seen.allocations.erase(0);
  if (*param.seen != '-') seen.allocations[0] = EntryText(param.seen);
  BlockState state = StateOf(expected);
  param.arrange(state, seen);
  const Self self = {
      .node = "n1", .instance = "m-me", .may_have_netns = [](const auto& one) { return one == "ns-a1"; }};
  EXPECT_EQ(ShownComparison(Compare(state, expected, seen, self)), param.want);
}

void ByAnotherMachine(BlockState& /*state*/, ipam::Block& seen) { seen.agent = "other-1.1"; }
void WhileA1IsReleased(BlockState& state, ipam::Block& /*seen*/) {
  state.queue.push_back({.change = Releasing("a1"), .deadline = {}});
}

const CompareCase kCompareCases[] = {
    {"TheSame", "a1", "a1", ""},
    {"ANewEntry", "-", "c1", ""},
    {"ARemovedEntry", "a1", "-", "restore 0: a1, not -; vanished a1"},
    {"AReplacedEntry", "a1", "c1", "restore 0: a1, not c1; vanished a1"},
    {"AnEntryMarkedForASibling", "a1", "a1+", ""},
    {"AnEntryThatWasReservedOver", "a1", "!r", "restore 0: a1, not !r; vanished a1"},
    {"ACoolingEntryThatGoes", "~", "-", ""},
    {"AReservationThatGoes", "!r", "-", ""},
    {"FreedByAPerson", "a1", "~-a1", ""},
    {"FreedByAPersonForAnother", "a1", "~-c1", "restore 0: a1, not ~-c1; vanished a1"},
    {"FreedByTheControllerAndInUse", "a1", "~a1", "restore 0: a1, not ~a1; in use a1"},
    {"FreedByTheControllerRightly", "a2", "~a2", "freed a2"},
    {"FreedByTheControllerWhileItIsReleased", "a1", "~a1", "restore 0: a1, not ~a1", "8", WhileA1IsReleased},
    {"FreedByTheControllerOfWhichNothingWasKnown", "-", "~a1", "restore 0: a1, not ~a1; in use a1"},
    {"RemovedWhileItsPatchIsUnderWay",
     "a1",
     "-",
     "",
     "8",
     [](BlockState& state, auto&) { state.attachments_in_flight.insert(AttachmentNamed("a1")); }},
    {"RemovedWhileItIsInDoubt",
     "a1",
     "-",
     "",
     "8",
     [](BlockState& state, auto&) { state.in_doubt.insert(AttachmentNamed("a1")); }},
    {"RemovedAndKnownAlready",
     "a1",
     "-",
     "restore 0: a1, not -",
     "8",
     [](BlockState& state, auto&) { state.to_restore[0] = {.found = "", .wanted = EntryText("a1")}; }},
    {"ThereAndKnownToBeGivenBack",
     "-",
     "c1",
     "restore 0: -, not c1",
     "8",
     [](BlockState& state, auto&) { state.to_restore[0] = {.found = EntryText("c1"), .wanted = ""}; }},
    {"RemovedByAnAgentOfAnotherMachine", "a1", "-", "restore 0: a1, not -; vanished a1", "8", ByAnotherMachine},
    {"ReplacedByAnAgentOfAnotherMachine", "a1", "c1", "", "8", ByAnotherMachine},
    {"WhereAnAddressIsSetAside",
     "a1",
     "c1",
     "",
     "8",
     [](BlockState& state, auto&) { state.handed_out[0] = {.attachment = {}, .entry = "?", .is_refused = true}; }},
    {"AnOlderVersionThatLacksAnEntry", "a1", "-", "restore 0: a1, not -; vanished a1", "5"},
    {"AnOlderVersionWithAnEntryThatIsGone", "-", "c1", "restore 0: -, not c1", "5"},
    {"AnOlderVersionWithACoolingEntry", "-", "~", "restore 0: -, not ~", "5"},
    {"AnOlderVersionWithAnEntryInDoubt",
     "-",
     "c1",
     "",
     "5",
     [](BlockState& state, auto&) { state.in_doubt.insert(AttachmentNamed("c1")); }},
};
INSTANTIATE_TEST_SUITE_P(Table, SeenBlock, testing::ValuesIn(kCompareCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Comparison, AsksNobodyWhereNetworkNamespacesCannotBeSeen) {
  ipam::Block seen = Expected7();
  seen.resource_version = "8";
  seen.allocations[0] = EntryText("~a1");
  const Self blind = {.node = "n1", .instance = "m-me"};
  EXPECT_EQ(ShownComparison(Compare(StateOf(Expected7()), Expected7(), seen, blind)), "");
}

TEST(Agents, AreOfOneMachineOrOfAnother) {
  ipam::Block block = Expected7();
  const auto seen_as = [&block](const char* agent) {
    block.agent = agent;
    return std::string(IsForeign(block, "m-me") ? "foreign" : "own") +
           (IsOfAnotherMachine(block, "m-me") ? ", another machine" : "");
  };
  EXPECT_EQ(seen_as(""), "own");
  EXPECT_EQ(seen_as("m-me.12"), "own");
  EXPECT_EQ(seen_as("m-mee.1"), "foreign");
  EXPECT_EQ(seen_as("m-next.1"), "foreign");
  EXPECT_EQ(seen_as("n-me.1"), "foreign, another machine");
}

class ForeignAgentTest : public testing::Test {
 protected:
  // A foreign agent writes the block, with these offsets on standby.
  void Meet(const ipam::OffsetSet& standby, std::chrono::seconds at) {
    ipam::Block seen = Expected7();
    seen.agent = "other-1.1";
    seen.standby = standby;
    MeetForeignAgent(state_, seen, Expected7(), AfterBoot(at));
    state_.view = std::make_shared<const ipam::Block>(std::move(seen));
  }
  // Changes the state as Core does after a write with a fence.
  void Fence(std::chrono::seconds at) {
    state_.must_fence = false;
    state_.is_failing = false;
    state_.foreign_agent->met = at;
    state_.view = std::make_shared<const ipam::Block>(Expected7());
  }
  [[nodiscard]] std::string ShownState() const {
    std::string shown = state_.must_fence ? "must fence" : "";
    if (!state_.foreign_agent) return shown + " parted";
    if (state_.foreign_agent->came_back) shown += " came back";
    if (state_.is_contested()) shown += " contested";
    for (const auto& [offset, one] : state_.handed_out) shown += " aside " + std::to_string(offset);
    return shown;
  }

  const Self self_ = {.node = "n1", .instance = "m-me"};
  BlockState state_ = StateOf(Expected7());
};

TEST_F(ForeignAgentTest, KeepsWhatItHasOnStandbyButForWhatThisAgentHad) {
  Meet({0, 1, 3, 4}, std::chrono::seconds(10));
  EXPECT_EQ(ShownState(), "must fence aside 3 aside 4") << "a1 holds .0, and .1 was this agent's";
  EXPECT_TRUE(state_.is_failing);
}

TEST_F(ForeignAgentTest, MayAlsoHaveWhatThisAgentHandedOut) {
  state_.handed_out[3] = {.id = 5, .attachment = AttachmentNamed("a2"), .entry = EntryText("a2")};
  Meet({3}, std::chrono::seconds(10));
  EXPECT_EQ(state_.handed_out.at(3).attachment, AttachmentNamed("a2"));
}

TEST_F(ForeignAgentTest, ThatWritesBeforeTheFenceDoesNotComeBack) {
  Meet({}, std::chrono::seconds(10));
  Meet({}, std::chrono::seconds(11));
  EXPECT_EQ(ShownState(), "must fence");
}

TEST_F(ForeignAgentTest, ThatComesBackTwiceContestsTheBlock) {
  Meet({3}, std::chrono::seconds(10));
  Fence(std::chrono::seconds(12));
  Meet({}, std::chrono::seconds(71));
  EXPECT_EQ(ShownState(), "must fence came back aside 3");
  Fence(std::chrono::seconds(72));
  Meet({}, std::chrono::seconds(73));
  EXPECT_EQ(ShownState(), " came back contested aside 3");
}

TEST_F(ForeignAgentTest, ThatWritesAfterAMinuteIsMetForTheFirstTime) {
  Meet({}, std::chrono::seconds(10));
  Fence(std::chrono::seconds(12));
  Meet({}, std::chrono::seconds(72));
  EXPECT_EQ(ShownState(), "must fence");
}

TEST_F(ForeignAgentTest, IsGoneWhenItDidNotComeBackForAMinute) {
  Meet({3}, std::chrono::seconds(10));
  Fence(std::chrono::seconds(12));
  state_.handed_out[4] = {.id = 5, .attachment = AttachmentNamed("a2"), .entry = EntryText("a2")};
  PartFromForeignAgent(state_, self_, AfterBoot(std::chrono::seconds(71)));
  EXPECT_EQ(ShownState(), " aside 3 aside 4");
  PartFromForeignAgent(state_, self_, AfterBoot(std::chrono::seconds(72)));
  EXPECT_EQ(ShownState(), " parted");
  EXPECT_TRUE(state_.is_failing) << "a write has to show that the foreign agent is silent";
  EXPECT_FALSE(state_.handed_out.contains(3));
  EXPECT_TRUE(state_.handed_out.contains(4)) << "this agent handed it out";
}

TEST_F(ForeignAgentTest, ThatHadTheLastWordIsWrittenOverAfterAMinute) {
  Meet({3}, std::chrono::seconds(10));
  Fence(std::chrono::seconds(12));
  Meet({}, std::chrono::seconds(20));
  Fence(std::chrono::seconds(21));
  Meet({}, std::chrono::seconds(22));
  PartFromForeignAgent(state_, self_, AfterBoot(std::chrono::seconds(81)));
  EXPECT_EQ(ShownState(), " came back contested aside 3");
  PartFromForeignAgent(state_, self_, AfterBoot(std::chrono::seconds(82)));
  EXPECT_EQ(ShownState(), "must fence aside 3");
}

TEST_F(ForeignAgentTest, WithoutAForeignAgentNothingChanges) {
  PartFromForeignAgent(state_, self_, AfterBoot(std::chrono::hours(1)));
  EXPECT_EQ(ShownState(), " parted");
}

}  // namespace
}  // namespace berth::agent_core
