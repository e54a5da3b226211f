// SPDX-License-Identifier: Apache-2.0
// Tests AttachmentGate: which ADDs were running at a given time.
#include "agent/attachment_gate.h"

#include <string>

#include <gtest/gtest.h>

namespace berth::agent {
namespace {

constexpr node::BootNanos kStarted = 100;
constexpr node::BootNanos kAnswered = 200;

TEST(WasAddRunning, IsTrueForAnUnansweredAdd) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered));
}

TEST(WasAddRunning, IsTrueForATimeBeforeTheAnswer) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  gate.NoteAnswered(running, kAnswered);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered - 1));
}

TEST(WasAddRunning, IsTrueForATimeBeforeTheAnswerOfAnEndedAdd) {
  AttachmentGate gate;
  gate.NoteAnswered(gate.HoldAdd("c1", kStarted), kAnswered);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered - 1));
}

TEST(WasAddRunning, IsFalseForAFailedAdd) {
  AttachmentGate gate;
  static_cast<void>(gate.HoldAdd("c1", kStarted));
  EXPECT_FALSE(gate.WasAddRunning("c1", kStarted));
}

TEST(WasAddRunning, IsFalseAfterTheAnswerBeforeItsDelivery) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  gate.NoteAnswered(running, kAnswered);
  EXPECT_FALSE(gate.WasAddRunning("c1", kAnswered + 1));
}

TEST(WasAddRunning, IsTrueForAnAddThatWaitsBehindTheAnsweredAdd) {
  AttachmentGate gate;
  const auto waiting = gate.HoldAdd("c1", kStarted);
  const auto answered = gate.HoldAdd("c1", kStarted);
  gate.NoteAnswered(answered, kAnswered);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered + 1));
}

TEST(WasAddRunning, IsFalseForAnotherAttachment) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  EXPECT_FALSE(gate.WasAddRunning("c2", kAnswered));
}

// A call may wait for ten minutes.
TEST(WasNewerAddAnswered, IsTrueForTenMinutesHoweverManyAddsCome) {
  AttachmentGate gate;
  gate.NoteAnswered(gate.HoldAdd("c0", 2), 0);
  for (int i = 1; i <= 2048; ++i) gate.NoteAnswered(gate.HoldAdd("c" + std::to_string(i), 2), 600'000'000'000);
  EXPECT_TRUE(gate.WasNewerAddAnswered("c0", 1));
}

}  // namespace
}  // namespace berth::agent
