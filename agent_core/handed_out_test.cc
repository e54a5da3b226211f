// SPDX-License-Identifier: Apache-2.0
// Tests what becomes of a handed-out address if the entry of its attachment is at another address.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace berth::agent_core
