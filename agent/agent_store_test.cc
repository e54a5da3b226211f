// SPDX-License-Identifier: Apache-2.0
// Tests edits of AgentStore while the API server does not answer.
#include "agent/agent_store.h"

#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "agent/call_runtime.h"
#include "agent/own_blocks_test_setup.h"

namespace berth::agent {
namespace {

using k8sclient::Method;
using k8sclient::testing::ApiFault;
using std::chrono::milliseconds;
using std::chrono::seconds;

class AgentStoreTest : public OwnBlocksTest {
 protected:
  AgentStoreTest() { EXPECT_TRUE(directory_.BecomeNodeOwner(own_.instance()).has_value()); }
  static ipam::Change Take(int number) {
    return {.attachment = ipam::TestAttachment(number), .what = ipam::SetEntries{{{1, TextOf(number)}}}};
  }

  ClusterView view_{api_, clock_, "n1", [] {}};
  ClaimTurns turns_{clock_};
  CallRuntime runtime_{clock_, clock_.Now(), seconds(60), own_};
  AgentStore store_{
      {.own = own_, .view = view_, .turns = turns_, .api = api_, .directory = directory_}, runtime_, runtime_.end()};
};

// The known block may be an earlier block of this name, which is gone.
TEST_F(AgentStoreTest, ReadsABlockInDoubtBeforeItIsWritten) {
  ipam::Block named = *MakeBlock();
  named.resource_version.clear();
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kGet ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  const auto written = store_.Edit(std::make_shared<const ipam::Block>(named), Take(1));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(IsStored(1));
}

// The list is older than the call that created the block. Since then this agent has handed out an address of the block,
// and has answered the DEL; the note of the address still exists.
TEST_F(AgentStoreTest, DoesNotTakeOverABlockThatACallHasAdded) {
  const ipam::BlockView listed = MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  ASSERT_FALSE(Stored()->standby.empty());
  const ipam::BlockOffset offset = *Stored()->standby.begin();
  ASSERT_TRUE(directory_
                  .NoteHandedOut({.attachment = ipam::TestAttachment(2),
                                  .block = kName,
                                  .uid = listed->uid,
                                  .offset = offset,
                                  .entry = TextOf(2)})
                  .has_value());
  const ipam::Block before = *Stored();
  EXPECT_TRUE(own_.TakeIn(listed, Soon()).has_value());
  EXPECT_FALSE(Holds(2));
  EXPECT_EQ(Stored()->agent, before.agent);
  EXPECT_EQ(Stored()->standby, before.standby);
}

TEST_F(AgentStoreTest, AWriteOfASharedBlockWaitsForOneWithoutAnAnswerNoLongerThanAnEditMayTake) {
  const ipam::Pool pool = ipam::TestPool("shared", "10.66.0.0/26", ipam::Affinity::kShared);
  const auto block = store_.Create(ipam::NewBlock(pool, pool.subnet, ""));
  ASSERT_TRUE(block.has_value()) << block.error().message;
  const auto unanswered = turns_.Begin("block " + (*block)->name, clock_.Now());
  store_.LimitEdits(milliseconds(0));
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(store_.Edit(*block, Take(1)).has_value());
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(10));
}

}  // namespace
}  // namespace berth::agent
