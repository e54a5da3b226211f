// SPDX-License-Identifier: Apache-2.0
// Tests AttachmentGate: which ADDs were running at a given time.
#include "agent/attachment_gate.h"

#include <gtest/gtest.h>

namespace berth::agent {
namespace {

constexpr node::BootNanos kStarted = 100;
constexpr node::BootNanos kAnswered = 200;

TEST(WasAddRunning, IsTrueOfOneThatIsNotAnswered) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered));
}

TEST(WasAddRunning, IsTrueUntilItIsAnsweredThoughItIsByNow) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  gate.NoteAnswered(running, kAnswered);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered - 1));
}

TEST(WasAddRunning, IsTrueUntilItIsAnsweredThoughItIsThroughByNow) {
  AttachmentGate gate;
  gate.NoteAnswered(gate.HoldAdd("c1", kStarted), kAnswered);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered - 1));
}

TEST(WasAddRunning, IsFalseOfOneThatFailed) {
  AttachmentGate gate;
  static_cast<void>(gate.HoldAdd("c1", kStarted));
  EXPECT_FALSE(gate.WasAddRunning("c1", kStarted));
}

TEST(WasAddRunning, IsFalseOnceItIsAnsweredThoughNobodyHasSeenItDelivered) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  gate.NoteAnswered(running, kAnswered);
  EXPECT_FALSE(gate.WasAddRunning("c1", kAnswered + 1));
}

TEST(WasAddRunning, IsTrueOfAnotherThatWaitsBehindTheAnsweredOne) {
  AttachmentGate gate;
  const auto waiting = gate.HoldAdd("c1", kStarted);
  const auto answered = gate.HoldAdd("c1", kStarted);
  gate.NoteAnswered(answered, kAnswered);
  EXPECT_TRUE(gate.WasAddRunning("c1", kAnswered + 1));
}

TEST(WasAddRunning, IsFalseOfAnotherAttachment) {
  AttachmentGate gate;
  const auto running = gate.HoldAdd("c1", kStarted);
  EXPECT_FALSE(gate.WasAddRunning("c2", kAnswered));
}

}  // namespace
}  // namespace berth::agent
