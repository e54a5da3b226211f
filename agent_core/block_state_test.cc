// SPDX-License-Identifier: Apache-2.0
// Tests which attachments have an address of a block.
#include <memory>

#include <gtest/gtest.h>

#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

TEST(Holds, SaysYesIfTheEntryIsWrittenOrStillToBeWritten) {
  ipam::Block block = EmptyBlock(*TestPoolView());
  block.allocations = {{1, EntryText("a1")}, {2, EntryText("~-a4")}};
  BlockState state;
  state.view = std::make_shared<const ipam::Block>(block);
  state.to_restore[2] = {.found = EntryText("~-a4"), .wanted = EntryText("a2")};
  state.handed_out[3] = {.id = 1, .attachment = AttachmentNamed("a3"), .entry = EntryText("a3")};
  EXPECT_TRUE(Holds(state, AttachmentNamed("a1")));
  EXPECT_TRUE(Holds(state, AttachmentNamed("a2")));
  EXPECT_TRUE(Holds(state, AttachmentNamed("a3")));
  EXPECT_FALSE(Holds(state, AttachmentNamed("a4")));
}

}  // namespace
}  // namespace berth::agent_core
