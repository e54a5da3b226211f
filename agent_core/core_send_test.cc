// SPDX-License-Identifier: Apache-2.0
// Tests counts, times and limits of a batch, which scripts do not show.
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

using std::chrono::milliseconds;

// A core with one block, and an API server that stores what the core writes.
class CoreBatch : public testing::Test {
 protected:
  CoreBatch() {
    ipam::Block block = EmptyBlock(*TestPoolView());
    block.agent = "m-me.1";
    stored_ = std::make_shared<const ipam::Block>(block);
    core_.Insert(stored_, stored_, now_, news_);
    state_ = core_.Find(stored_->name);
  }

  // The version after `stored_`.
  [[nodiscard]] ipam::BlockView Newer(ipam::Block block) const {
    block.resource_version = std::to_string(VersionOf(*stored_) + 1);
    return std::make_shared<const ipam::Block>(std::move(block));
  }
  Step Begin() {
    state_->is_sending = true;
    core_.Begin(*state_, now_.steady + std::chrono::seconds(10));
    return core_.Next(*state_, now_, news_);
  }
  // Sends an ADD. The API server answers the patch after this time.
  void Take(const char* name, milliseconds after) {
    static_cast<void>(core_.Submit(*state_, Taking(TestPoolView(), name), now_.steady));
    stored_ = Newer(std::get<Write>(Begin()).after);
    const Now asked = std::exchange(now_, {now_.steady + after, now_.since_boot + after});
    core_.Answer(*state_, stored_, asked, now_, news_);
    ASSERT_TRUE(std::holds_alternative<Done>(core_.Next(*state_, now_, news_)));
    static_cast<void>(Core::End(*state_));
  }

  Now now_ = {.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)};
  Core core_{{.self = {.node = "n1", .instance = "m-me"}, .standby = 2}};
  News news_;
  ipam::BlockView stored_;
  Core::StatePointer state_;
};

TEST_F(CoreBatch, SmoothsTheLatencyOfPatches) {
  Take("a1", milliseconds(100));
  EXPECT_EQ(state_->patch_latency, milliseconds(100));
  Take("a2", milliseconds(20));
  EXPECT_EQ(state_->patch_latency, milliseconds(80)) << "three quarters of 100 ms and a quarter of 20 ms";
}

TEST_F(CoreBatch, TakesAlongACallerWith50MsMoreTime) {
  const SteadyTime deadline = now_.steady + std::chrono::seconds(10);
  static_cast<void>(core_.Submit(*state_, {}, deadline + kGatherMax));
  const ChangeId later = core_.Submit(*state_, {}, deadline + kGatherMax + milliseconds(1));
  Begin();
  ASSERT_EQ(state_->queue.size(), 1U);
  EXPECT_EQ(state_->queue.front().id, later);
}

TEST_F(CoreBatch, GivesUpAfter50Conflicts) {
  static_cast<void>(core_.Submit(*state_, Taking(TestPoolView(), "a1"), now_.steady));
  Step step = Begin();
  int conflicts = 0;
  for (; std::holds_alternative<Write>(step) && conflicts < 60; ++conflicts) {
    stored_ = Newer(*stored_);
    core_.Answer(*state_, Fail(ErrorCode::kConflict, "it has been modified"), now_, now_, news_);
    ASSERT_TRUE(std::holds_alternative<Read>(core_.Next(*state_, now_, news_)));
    core_.Answer(*state_, stored_, now_, now_, news_);
    step = core_.Next(*state_, now_, news_);
  }
  EXPECT_EQ(conflicts, 50);
  ASSERT_EQ(news_.outcomes.size(), 1U);
  EXPECT_EQ(news_.outcomes[0].result.error().message, "it has been modified");
}

TEST_F(CoreBatch, KeepsTheNewestVersionUntilItsEnd) {
  const ipam::BlockView older = std::exchange(stored_, Newer(*stored_));
  Core::KeepUntilEnd(*state_, stored_);
  Core::KeepUntilEnd(*state_, older);
  EXPECT_EQ(Core::End(*state_), stored_);
  Core::KeepUntilEnd(*state_, older);
  Core::KeepUntilEnd(*state_, stored_);
  EXPECT_EQ(Core::End(*state_), stored_);
  EXPECT_EQ(Core::End(*state_), nullptr);
}

TEST_F(CoreBatch, IsNeededForARestoredEntryOrAFenceUnlessTheProcessEnds) {
  EXPECT_FALSE(core_.HasToWrite(*state_));
  state_->must_fence = true;
  EXPECT_TRUE(core_.HasToWrite(*state_));
  state_->must_fence = false;
  state_->to_restore[1] = {.found = "", .wanted = EntryText("a1")};
  EXPECT_TRUE(core_.HasToWrite(*state_));
  core_.Stop();
  EXPECT_FALSE(core_.HasToWrite(*state_));
  EXPECT_TRUE(core_.WriteWhatIsLeft(now_).empty());
}

TEST_F(CoreBatch, CountsBlocksThatComeAndGo) {
  EXPECT_EQ(core_.generation(), 1U);
  EXPECT_EQ(state_->added_generation, 1U);
  core_.Forget(*state_, news_);
  EXPECT_EQ(core_.generation(), 2U);
  core_.Insert(Newer(*stored_), Newer(*stored_), now_, news_);
  EXPECT_EQ(core_.Find(stored_->name)->added_generation, 3U);
}

// A batch of the earlier block may still be under way.
TEST_F(CoreBatch, OfAForgottenBlockDoesNotForgetTheNextBlockOfThatName) {
  core_.Forget(*state_, news_);
  core_.Insert(Newer(*stored_), Newer(*stored_), now_, news_);
  core_.Forget(*state_, news_);
  EXPECT_NE(core_.Find(stored_->name), nullptr);
}

TEST_F(CoreBatch, CarriesNoAddressOfAnEarlierAgentThatNoKnownBlockHas) {
  const HandedOut note{.attachment = AttachmentNamed("a1"), .entry = EntryText("a1")};
  EXPECT_EQ(core_.Resume("uid-1", 1, note, "10.55.0.8-29", news_), 0U);
  EXPECT_EQ(core_.Resume("uid-1", stored_->size(), note, stored_->name, news_), 0U);
  EXPECT_EQ(news_.reports.size(), 2U);
  for (const Report& report : news_.reports) EXPECT_EQ(report.kind, Report::Kind::kHandedOutLost);
  EXPECT_NE(core_.Resume("uid-1", stored_->size() - 1, note, stored_->name, news_), 0U);
}

}  // namespace
}  // namespace berth::agent_core
