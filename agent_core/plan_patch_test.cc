// SPDX-License-Identifier: Apache-2.0
// Tests PlanPatch: what a patch carries.
#include "agent_core/plan_patch.h"

#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

// A patch keeps two addresses on standby.
const PlanOptions kKeepsTwo = {.standby = 2};

void Ask(Round& round, const ipam::Change& change) {
  round.changes.push_back({.id = round.changes.size() + 1, .change = change, .deadline = {}});
}
void AskToTake(Round& round, const char* name, const char* requested = nullptr) {
  ipam::Change change = Taking(TestPoolView(), name);
  if (requested != nullptr)
    std::get<ipam::TakeAddress>(change.what).requested = ipam::Address::Parse(requested).value();
  Ask(round, change);
}
void Give(BlockState& state, ipam::BlockOffset offset, const char* name, bool is_refused = false) {
  state.handed_out[offset] = {
      .id = offset + 10, .attachment = AttachmentNamed(name), .entry = EntryText(name), .is_refused = is_refused};
}
void SetAside(BlockState& state, ipam::BlockOffset offset) {
  state.handed_out[offset] = {.attachment = {}, .entry = "?", .is_refused = true};
}
void ChangeView(BlockState& state, const std::function<void(ipam::Block&)>& change) {
  ipam::Block block = *state.view;
  change(block);
  state.view = std::make_shared<const ipam::Block>(std::move(block));
}
void Overwrite(BlockState& state, ipam::BlockOffset offset, const char* was, const char* by) {
  state.to_restore[offset] = {.found = EntryText(by), .wanted = EntryText(was)};
  ChangeView(state, [&](ipam::Block& block) {
    block.allocations.erase(offset);
    if (*by != '-') block.allocations[offset] = EntryText(by);
  });
}

// Returns for example "10.55.0.0=a1 | applied 1 | carries 2=a2 | leaving 1 | touches a1 | touches b1".
std::string ShownPlan(const BlockState& state, const Plan& plan) {
  std::string shown = ShownDifference(*plan.before, plan.after);
  for (const PendingChange& one : plan.applied) shown += " | applied " + std::to_string(one.id);
  for (const auto& [one, error] : plan.refused) {
    shown += " | " + std::to_string(one.id) + " fails: " + std::string(ToString(error.code));
  }
  for (const ipam::BlockOffset offset : plan.carried) {
    shown += " | carries " + std::to_string(offset) + "=" + NameOf(state.handed_out.at(offset).attachment);
  }
  if (!plan.leaving.empty()) shown += " | leaving " + ShownOffsets(plan.leaving);
  for (const ipam::Attachment& one : plan.touched) shown += " | touches " + NameOf(one);
  for (const ipam::BlockOffset offset : plan.given_back) shown += " | given back " + std::to_string(offset);
  return shown;
}

struct PlanCase {
  const char* name;
  std::function<void(BlockState&, Round&)> arrange;
  const char* want;
  PlanOptions options = kKeepsTwo;
  friend void PrintTo(const PlanCase& one, std::ostream* out) { *out << one.name; }
};
class PlannedPatch : public testing::TestWithParam<PlanCase> {};

// b1 holds .7, and .1 and .2 are on standby.
TEST_P(PlannedPatch, IsThis) {
  ipam::Block block = EmptyBlock(*TestPoolView());
  block.allocations[7] = EntryText("b1");
  block.standby = {1, 2};
  block.agent = "m-me.1";
  BlockState state;
  state.view = std::make_shared<const ipam::Block>(block);
  Round round;
  GetParam().arrange(state, round);
  EXPECT_EQ(ShownPlan(state, PlanPatch(state, round, GetParam().options)), GetParam().want);
}

const PlanCase kPlanCases[] = {
    {"ANothingChangesNothing", [](auto&, Round& r) { Ask(r, {}); }, " | applied 1"},
    {"AnAddTakesAFreeAddressFirst", [](auto&, Round& r) { AskToTake(r, "a1"); }, "10.55.0.0=a1 | applied 1"},
    {"AnAddWithoutStandbyTakesNoneAway",
     [](auto&, Round& r) { AskToTake(r, "a1"); },
     "10.55.0.0=a1 | applied 1",
     {.standby = 0}},
    {"AnAddPutsOneAddressOnStandby",
     [](BlockState& s, Round& r) {
       ChangeView(s, [](ipam::Block& block) { block.standby.clear(); });
       AskToTake(r, "a1");
     },
     "10.55.0.0=a1 standby=1 | applied 1",
     {.standby = 1}},
    {"ARequestedAddressLeavesStandby",
     [](auto&, Round& r) { AskToTake(r, "a1", "10.55.0.1"); },
     "10.55.0.1=a1 standby=0,2 | applied 1 | leaving 1"},
    {"TheLastDelEmptiesStandby",
     [](auto&, Round& r) { Ask(r, Releasing("b1")); },
     "10.55.0.7=- standby=- | applied 1 | leaving 1-2 | touches b1"},
    {"AFenceRaisesTheAgent",
     [](auto&, Round& r) { Ask(r, {}); },
     "agent=m-me.2 | applied 1",
     {.standby = 2, .agent = "m-me.2"}},
    {"ADelWithoutAnEntryIsApplied", [](auto&, Round& r) { Ask(r, Releasing("c1")); }, " | applied 1"},
    {"WhatCannotBeAppliedFailsAlone",
     [](auto&, Round& r) {
       AskToTake(r, "a1", "10.55.0.7");
       Ask(r, {.what = ipam::MarkSibling{AttachmentNamed("c1")}});
       AskToTake(r, "a2");
     },
     "10.55.0.0=a2 | applied 3 | 1 fails: AddressTaken | 2 fails: Conflict"},
    {"AllThatWasHandedOutGoesAlong",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1");
       Give(s, 2, "a2");
       AskToTake(r, "a3");
     },
     "10.55.0.0=a3 10.55.0.1=a1 10.55.0.2=a2 standby=3-4 | applied 1 | carries 1=a1 | carries 2=a2 | leaving 1-2 | "
     "touches a1 | touches a2"},
    {"WhatIsRefusedStaysOnStandbyBesideTheOthers",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1", /*is_refused=*/true);
       Give(s, 2, "a2");
       AskToTake(r, "a3");
     },
     "10.55.0.0=a3 10.55.0.2=a2 standby=1,3 | applied 1 | carries 2=a2 | leaving 2 | touches a2"},
    {"APatchThatIsAloneCarriesNothing",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1");
       r.is_alone = true;
       AskToTake(r, "a3");
     },
     "10.55.0.0=a3 | applied 1"},
    {"APatchThatIsAloneCarriesItsOne",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1", /*is_refused=*/true);
       Give(s, 2, "a2");
       r.is_alone = true;
       r.only = 1;
       Ask(r, {});
     },
     "10.55.0.1=a1 standby=2 | applied 1 | carries 1=a1 | leaving 1 | touches a1"},
    {"WhatIsInAlreadyIsNotTakenOut",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1", /*is_refused=*/true);
       ChangeView(s, [](ipam::Block& block) {
         block.allocations[1] = EntryText("a1");
         block.standby = {2, 3};
       });
       AskToTake(r, "a2");
     },
     "10.55.0.0=a2 | applied 1 | carries 1=a1 | touches a1"},
    {"WhoHasAnAddressInTheBlockGetsNoSecondOne",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1");
       Give(s, 2, "a2");
       ChangeView(s, [](ipam::Block& block) { block.allocations[3] = EntryText("a1"); });
       Ask(r, {});
     },
     "10.55.0.2=a2 standby=- | applied 1 | carries 1=a1 | carries 2=a2 | leaving 1-2 | touches a1 | touches a2"},
    {"WhatWasHandedOutAndGivenBackRests",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1");
       AskToTake(r, "a2");
       Ask(r, Releasing("a1"));
     },
     "10.55.0.0=a2 standby=2 | applied 1 | applied 2 | carries 1=a1 | leaving 1 | touches a1"},
    {"WhatIsRefusedAndMarkedGoesAlong",
     [](BlockState& s, Round& r) {
       Give(s, 1, "a1", /*is_refused=*/true);
       Ask(r, {.what = ipam::MarkSibling{AttachmentNamed("a1")}});
     },
     "10.55.0.1=a1+ standby=2 | applied 1 | carries 1=a1 | leaving 1 | touches a1"},
    {"AnAddressSetAsideForAForeignAgentStaysOnStandby",
     [](BlockState& s, Round& r) {
       SetAside(s, 0);
       AskToTake(r, "a1");
     },
     "10.55.0.3=a1 standby=0-2 | applied 1"},
    {"AnEntryIsRestored",
     [](BlockState& s, Round& r) {
       Overwrite(s, 0, "a1", "-");
       Ask(r, {});
     },
     "10.55.0.0=a1 | applied 1"},
    {"AnEntryIsRestoredOverAnother",
     [](BlockState& s, Round& r) {
       Overwrite(s, 0, "a1", "c1");
       Ask(r, {});
     },
     "10.55.0.0=a1 | applied 1 | touches c1"},
    {"AnEntryThatSomebodyMovedIsNotRestored",
     [](BlockState& s, Round& r) {
       Overwrite(s, 0, "b1", "-");
       Ask(r, {});
     },
     " | applied 1 | given back 0"},
    {"WhatSomebodyWroteSinceIsLeftAlone",
     [](BlockState& s, Round& r) {
       Overwrite(s, 0, "a1", "d1");
       ChangeView(s, [](ipam::Block& block) { block.allocations[0] = EntryText("c1"); });
       Ask(r, {});
     },
     " | applied 1"},
    {"WhatNobodyHadIsTakenOut",
     [](BlockState& s, Round& r) {
       Overwrite(s, 0, "-", "c1");
       Ask(r, {});
     },
     "10.55.0.0=- | applied 1 | touches c1 | given back 0"},
    {"ADelOfAnEntryToRestoreFreesItsAddress",
     [](BlockState& s, Round& r) {
       Overwrite(s, 0, "a1", "-");
       Ask(r, Releasing("a1"));
     },
     " | applied 1 | given back 0"},
    {"ADelWithoutAPoolLeavesStandby",
     [](BlockState& s, Round& r) {
       ChangeView(s, [](ipam::Block& block) { block.allocations[0] = EntryText("a1"); });
       Ask(r, Releasing("a1"));
     },
     "10.55.0.0=- | applied 1 | touches a1"},
    {"TheNewestPlanOfStandbyIsKept",
     [](BlockState& s, Round& r) {
       s.standby_plan = ipam::StandbyPlan{.pool = TestPoolView()};
       Ask(r, {.standby = ipam::StandbyPlan{.pool = nullptr}});
     },
     "standby=- | applied 1 | leaving 1-2"},
    {"NoPlanIsCarriedOutIfNoStandbyIsKept",
     [](BlockState&, Round& r) { Ask(r, {.standby = ipam::StandbyPlan{.pool = nullptr}}); },
     " | applied 1",
     {.standby = 0}},
    {"AnEarlierPlanOfStandbyHoldsForADel",
     [](BlockState& s, Round& r) {
       s.standby_plan = ipam::StandbyPlan{.pool = TestPoolView()};
       ChangeView(s, [](ipam::Block& block) {
         block.allocations[0] = EntryText("a1");
         block.standby = {1};
       });
       Ask(r, Releasing("a1"));
     },
     "10.55.0.0=- standby=0-1 | applied 1 | touches a1"},
    {"NothingIsOnStandbyInABlockThatGoes",
     [](BlockState& s, Round& r) {
       ChangeView(s, [](ipam::Block& block) { block.deleting = true; });
       Ask(r, {});
     },
     "standby=- | applied 1 | leaving 1-2"},
};
INSTANTIATE_TEST_SUITE_P(Table, PlannedPatch, testing::ValuesIn(kPlanCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace berth::agent_core
