// SPDX-License-Identifier: Apache-2.0
// Tests what becomes of a handed-out address if its attachment's entry is at another address, or if its block is gone.
#include <memory>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"
#include "agent_core/plan_patch.h"
#include "ipam/engine_test_setup.h"

namespace berth::agent_core {
namespace {

// Another writer wrote the entry at another address, and removed it again.
TEST(HandedOut, ARefusedAddressStaysOnStandbyThoughItsEntryIsRestoredElsewhere) {
  ipam::Block block =
      ipam::NewBlock(ipam::TestPool("web", "10.55.0.0/24"), ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  block.standby = {5};
  const std::string entry = "team-a/web u " + ipam::TestAttachment(1) + " i=eth0 t=1";
  BlockState state;
  state.view = std::make_shared<const ipam::Block>(block);
  state.handed_out[5] = {.id = 1, .attachment = ipam::TestAttachment(1), .entry = entry, .is_refused = true};
  state.to_restore[9] = {.found = "", .wanted = entry};
  state.is_sending = true;
  const Round round{.changes = {PendingChange{.id = 2, .change = {}, .deadline = {}}}};
  const Plan plan = PlanPatch(state, round, {.standby = 4, .agent = {}});
  EXPECT_TRUE(plan.after.standby.contains(5));
  EXPECT_FALSE(plan.after.allocations.contains(5));
}

// Another block of the same name exists by the time at which the answer comes, and the agent has loaded it.
TEST(HandedOut, AnswerToAPatchOfABlockThatWasForgottenMeanwhileChangesNothing) {
  const Now now{.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)};
  ipam::Block block = EmptyBlock(*TestPoolView());
  block.agent = "m-me.1";
  block.standby = {2, 3};
  const auto version = [&block](const std::string& number, const std::string& uid) {
    ipam::Block one = block;
    one.resource_version = number;
    one.uid = uid;
    return std::make_shared<const ipam::Block>(std::move(one));
  };
  Core core({.self = {.node = "n1", .instance = "m-me"}, .standby = 2});
  News news;
  core.Insert(version("2", "first"), version("1", "first"), now, news);
  const auto state = core.Find(block.name);
  state->is_sending = true;
  ASSERT_TRUE(
      core.Resume("first", 2, {.attachment = AttachmentNamed("a1"), .entry = EntryText("a1")}, block.name, news));
  static_cast<void>(core.Submit(*state, {}, now.steady));
  core.Begin(*state, now.steady);
  const auto request = core.Next(*state, now, news);
  ASSERT_TRUE(std::holds_alternative<Write>(request));
  core.Insert(version("9", "second"), version("8", "second"), now, news);
  core.Answer(*state, version("3", "first"), now, now, news);
  EXPECT_EQ(core.Find(block.name)->view->uid, "second");
  EXPECT_TRUE(core.Find(block.name)->handed_out.empty());
}

}  // namespace
}  // namespace berth::agent_core
