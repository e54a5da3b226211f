// SPDX-License-Identifier: Apache-2.0
// Tests what a state says about an attachment, and which invariants a state must not break.
#include "agent_core/block_state.h"

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

PendingChange Pending(const ipam::Change& change) { return {.id = 1, .change = change, .deadline = {}}; }
Round RoundOf(const std::vector<ipam::Change>& changes) {
  Round round;
  for (const ipam::Change& one : changes) round.changes.push_back(Pending(one));
  return round;
}
HandedOut GivenTo(const char* name) { return {.id = 1, .attachment = AttachmentNamed(name), .entry = EntryText(name)}; }

// b1 holds .7, and a5 and a6 are neither written nor to be written.
BlockState StateOfB1() {
  ipam::Block block = EmptyBlock(*TestPoolView());
  block.allocations = {{6, EntryText("~-a5")}, {7, EntryText("b1")}};
  BlockState state;
  state.view = std::make_shared<const ipam::Block>(std::move(block));
  return state;
}

TEST(Holds, SaysYesIfTheEntryIsWrittenOrStillToBeWritten) {
  BlockState state = StateOfB1();
  EXPECT_FALSE(Holds(state, AttachmentNamed("a5")));
  state.to_restore[5] = {.found = "", .wanted = EntryText("a4")};
  state.to_restore[6] = {.found = EntryText("~-a5"), .wanted = EntryText("a2")};
  state.handed_out[3] = GivenTo("a3");
  state.handed_out[4] = GivenTo("a6");
  for (const char* const name : {"b1", "a2", "a3", "a4", "a6"}) EXPECT_TRUE(Holds(state, AttachmentNamed(name)));
  EXPECT_FALSE(Holds(state, AttachmentNamed("a5")));
}

TEST(IsInDoubt, SaysYesWhileAWriteOfTheAttachmentIsUnderWayOrInDoubt) {
  BlockState state = StateOfB1();
  EXPECT_FALSE(IsInDoubt(state, AttachmentNamed("a1")));
  state.in_doubt = {AttachmentNamed("a1"), AttachmentNamed("a2")};
  EXPECT_TRUE(IsInDoubt(state, AttachmentNamed("a1")));
  state.rounds = {RoundOf({Taking(TestPoolView(), "a3"), Releasing("b1")}), RoundOf({Releasing("a5")})};
  for (const char* const name : {"a1", "a3", "b1", "a5"}) EXPECT_TRUE(IsInDoubt(state, AttachmentNamed(name)));
  state.queue = {Pending(Releasing("a6"))};
  EXPECT_FALSE(IsInDoubt(state, AttachmentNamed("a6"))) << "it only waits";
}

TEST(IsGivenBack, SaysYesWhileADelOfTheAttachmentWaitsOrIsBeingSent) {
  BlockState state = StateOfB1();
  EXPECT_FALSE(IsGivenBack(state, AttachmentNamed("b1")));
  state.queue = {Pending(Releasing("a6")), Pending(Taking(TestPoolView(), "a1"))};
  EXPECT_TRUE(IsGivenBack(state, AttachmentNamed("a6")));
  EXPECT_FALSE(IsGivenBack(state, AttachmentNamed("a1"))) << "this is an ADD";
  EXPECT_FALSE(IsGivenBack(state, AttachmentNamed("b1")));
  state.rounds = {RoundOf({Taking(TestPoolView(), "a3"), Releasing("b1")}), RoundOf({{}})};
  EXPECT_TRUE(IsGivenBack(state, AttachmentNamed("b1")));
  EXPECT_FALSE(IsGivenBack(state, AttachmentNamed("a3")));
}

struct InvariantCase {
  const char* name;
  std::function<void(BlockState&)> arrange;
  const char* want;  // "": no invariant is broken
  friend void PrintTo(const InvariantCase& one, std::ostream* out) { *out << one.name; }
};
class Invariants : public testing::TestWithParam<InvariantCase> {};

// A patch is under way, which writes the entry of a1 at .1. This address was handed out to a1.
TEST_P(Invariants, AreFoundBroken) {
  BlockState state = StateOfB1();
  state.is_sending = true;
  state.handed_out[1] = GivenTo("a1");
  Round round = RoundOf({{}});
  round.awaits = Round::Awaits::kWrite;
  round.before = state.view;
  round.after = *state.view;
  round.after.allocations[1] = EntryText("a1");
  state.rounds = {round, RoundOf({{}})};
  state.leaving = {1};
  GetParam().arrange(state);
  EXPECT_EQ(FindBrokenInvariant(state).value_or(""), GetParam().want);
}

constexpr const char* kGivesAway = "a patch gives away an address that was handed out";
constexpr const char* kIsOver = "a batch that is over is still being sent";
constexpr const char* kComparesAnother = "a patch that does not compare the version it was decided on";

void WriteEntry(BlockState& state, ipam::BlockOffset offset, const char* name) {
  state.rounds[0].after.allocations[offset] = EntryText(name);
}
// The patch replaces another entry of the address.
void ReplaceEntry(BlockState& state, const char* before, const char* after) {
  ipam::Block block = *state.view;
  block.allocations[1] = EntryText(before);
  state.rounds[0].before = std::make_shared<const ipam::Block>(std::move(block));
  WriteEntry(state, 1, after);
}

const InvariantCase kInvariantCases[] = {
    {"APatchUnderWay", [](auto&) {}, ""},
    {"NoVersion", [](BlockState& s) { s.view = nullptr; }, "a block without a version"},
    {"TwoAddressesOfOneAttachment",
     [](BlockState& s) { s.handed_out[2] = GivenTo("a1"); },
     "attachment 0123456789ab-00000000000000a1 was handed out two addresses"},
    {"TwoAddressesSetAside",
     [](BlockState& s) { s.handed_out[2] = s.handed_out[3] = {.attachment = {}, .entry = "?", .is_refused = true}; },
     ""},
    {"RoundsOfNobody", [](BlockState& s) { s.is_sending = false; }, "rounds without a sender"},
    {"TwoRequests",
     [](BlockState& s) { s.rounds[1].awaits = Round::Awaits::kSettlingRead; },
     "two requests of one block are under way"},
    {"LeavingAfterTheBatch", [](BlockState& s) { s.rounds.clear(); }, kIsOver},
    {"AttachmentsInFlightAfterTheBatch",
     [](BlockState& s) {
       s.rounds.clear();
       s.leaving.clear();
       s.attachments_in_flight = {AttachmentNamed("a1")};
     },
     kIsOver},
    {"ABatchThatIsOver",
     [](BlockState& s) {
       s.rounds.clear();
       s.leaving.clear();
     },
     ""},
    {"APatchOfNoVersion", [](BlockState& s) { s.rounds[0].before = nullptr; }, kComparesAnother},
    {"APatchOfAnotherVersion", [](BlockState& s) { s.rounds[0].after.resource_version = "9"; }, kComparesAnother},
    {"AnEntryOfAnother", [](BlockState& s) { WriteEntry(s, 1, "c1"); }, kGivesAway},
    {"AnEntryOfAnotherAfterTheAnswer",
     [](BlockState& s) {
       WriteEntry(s, 1, "c1");
       s.rounds[0].awaits = Round::Awaits::kNothing;
     },
     ""},
    {"AnEntryOfAnotherAtTheSecondAddress",
     [](BlockState& s) {
       s.handed_out[2] = GivenTo("a2");
       WriteEntry(s, 2, "c1");
     },
     kGivesAway},
    {"NoEntry", [](BlockState& s) { s.rounds[0].after.allocations.erase(1); }, ""},
    {"ACoolingEntry", [](BlockState& s) { WriteEntry(s, 1, "~"); }, ""},
    {"AnEntryOfAnotherInPlaceOfItsOwn", [](BlockState& s) { ReplaceEntry(s, "a1", "c1"); }, kGivesAway},
    {"AnEntryOfAnotherWhereItWasLost", [](BlockState& s) { ReplaceEntry(s, "c2", "c1"); }, ""},
    {"AnEntryOfAnotherThatIsRestored",
     [](BlockState& s) {
       WriteEntry(s, 1, "c1");
       s.to_restore[1] = {.found = "", .wanted = EntryText("c1")};
     },
     ""},
    {"AnEntryOfAnotherThanTheOneToRestore",
     [](BlockState& s) {
       WriteEntry(s, 1, "c1");
       s.to_restore[1] = {.found = "", .wanted = EntryText("c2")};
     },
     kGivesAway},
    {"AnEntryOfAnotherAfterItsDel",
     [](BlockState& s) {
       WriteEntry(s, 1, "c1");
       s.queue = {Pending(Releasing("a1"))};
     },
     ""},
    {"AnEntryWhereAnAddressIsSetAside",
     [](BlockState& s) {
       s.handed_out[1] = {.attachment = {}, .entry = "?", .is_refused = true};
       WriteEntry(s, 1, "c1");
     },
     ""},
};
INSTANTIATE_TEST_SUITE_P(Table, Invariants, testing::ValuesIn(kInvariantCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace berth::agent_core
