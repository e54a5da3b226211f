// SPDX-License-Identifier: Apache-2.0
// The ruling on one suspect, by what is known of its pod and of its node.
#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "reconciler/decide_orphans.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

constexpr seconds kNever{-1};

// All times are in seconds after the suspicion began.
struct JudgeCase {
  const char* name;
  Cause cause;
  seconds grace;
  std::uint64_t renewals;
  seconds first_renewal;
  NodeFacts node;
  seconds now;
  bool may_free;
  const char* why_kept;
  seconds due;  // kNever: time alone changes nothing
};
constexpr Cause kSandboxUnknown = Cause::kSandboxUnknown;
constexpr NodeFacts kReady{.exists = true, .is_ready = true};
constexpr NodeFacts kNotReady{.exists = true};
constexpr NodeFacts kOutOfService{.exists = true, .is_out_of_service = true};

class JudgeTest : public testing::TestWithParam<JudgeCase> {};

TEST_P(JudgeTest, FreesOnlyAddressesThatNoContainerCanHave) {
  const JudgeCase& c = GetParam();
  Suspicion suspicion{.cause = c.cause, .grace = c.grace, .since = {}, .renewals = c.renewals};
  if (c.renewals > 0) suspicion.first_renewal = SteadyTime(c.first_renewal);
  const Ruling ruling = Judge(suspicion, c.node, SteadyTime(c.now));
  EXPECT_EQ(ruling.may_free, c.may_free);
  EXPECT_EQ(ruling.why_kept, c.why_kept);
  EXPECT_EQ(ruling.due, c.due == kNever ? std::nullopt : std::optional(SteadyTime(c.due)));
}

NodeFacts GoneSince(seconds since) { return {.gone_since = SteadyTime(since)}; }

const JudgeCase kJudgeCases[] = {
    {"VanishedAndItsGraceIsOver", Cause::kVanished, seconds(30), 4, seconds(9), kReady, seconds(49), true, "", kNever},
    {"MayStillBeEnding",
     Cause::kVanished,
     seconds(30),
     4,
     seconds(9),
     kReady,
     seconds(48),
     false,
     "may-be-ending",
     seconds(49)},
    {"SandboxUnknown",
     kSandboxUnknown,
     seconds(30),
     99,
     seconds(9),
     kReady,
     seconds(608),
     false,
     "may-be-ending",
     seconds(609)},
    {"SandboxUnknownLongAgo", kSandboxUnknown, seconds(30), 99, seconds(9), kReady, seconds(609), true, "", kNever},
    {"SandboxUnknownOfLongGrace",
     kSandboxUnknown,
     seconds(3600),
     999,
     seconds(9),
     kReady,
     seconds(3619),
     true,
     "",
     kNever},
    {"LongGrace",
     Cause::kVanished,
     seconds(120),
     9,
     seconds(9),
     kReady,
     seconds(138),
     false,
     "may-be-ending",
     seconds(139)},
    {"NoGraceAtAll", Cause::kVanished, seconds(0), 2, seconds(5), kReady, seconds(15), true, "", kNever},
    {"NodeHeardOfOnce",
     Cause::kVanished,
     seconds(30),
     1,
     seconds(9),
     kReady,
     seconds(99),
     false,
     "node-not-heard-of",
     seconds(100)},
    {"NodeNeverHeardOf",
     Cause::kVanished,
     seconds(30),
     0,
     seconds(0),
     kReady,
     seconds(99),
     false,
     "node-not-heard-of",
     seconds(100)},
    {"CutOffWhenItVanishedSoItsEndBeganLater",
     Cause::kVanished,
     seconds(30),
     2,
     seconds(180),
     kReady,
     seconds(219),
     false,
     "may-be-ending",
     seconds(220)},
    {"CutOffForAMomentSoItsEndBeganLater",
     Cause::kVanished,
     seconds(30),
     3,
     seconds(14),
     kReady,
     seconds(43),
     false,
     "may-be-ending",
     seconds(54)},
    {"CutOffAndBackForLongEnough",
     Cause::kVanished,
     seconds(30),
     5,
     seconds(180),
     kReady,
     seconds(220),
     true,
     "",
     kNever},
    {"NodeNotReady",
     Cause::kVanished,
     seconds(30),
     9,
     seconds(9),
     kNotReady,
     seconds(999),
     false,
     "node-not-ready",
     kNever},
    {"NoNodeOfThatNameButPods",
     Cause::kVanished,
     seconds(30),
     9,
     seconds(9),
     {},
     seconds(999),
     false,
     "unknown-node",
     kNever},
    {"NotSeenToVanish",
     Cause::kAbsent,
     seconds(0),
     9,
     seconds(9),
     kReady,
     seconds(608),
     false,
     "may-be-ending",
     seconds(609)},
    {"NotSeenToVanishTenMinutesAgo", Cause::kAbsent, seconds(0), 9, seconds(9), kReady, seconds(609), true, "", kNever},
    {"Terminal", Cause::kTerminal, seconds(0), 9, seconds(9), kReady, seconds(69), true, "", kNever},
    {"TerminalLately",
     Cause::kTerminal,
     seconds(0),
     9,
     seconds(9),
     kReady,
     seconds(68),
     false,
     "may-be-ending",
     seconds(69)},
    {"TerminalWithLongGraceForItIsEvicted",
     Cause::kTerminal,
     seconds(90),
     9,
     seconds(9),
     kReady,
     seconds(108),
     false,
     "may-be-ending",
     seconds(109)},
    {"NobodyKnowsThePod",
     Cause::kUnknown,
     seconds(0),
     99,
     seconds(9),
     kReady,
     seconds(99999),
     false,
     "unknown-pod",
     kNever},
    {"NodeGone", Cause::kVanished, seconds(30), 0, seconds(0), GoneSince(seconds(0)), seconds(300), true, "", kNever},
    {"NodeGoneLately",
     Cause::kVanished,
     seconds(30),
     9,
     seconds(9),
     GoneSince(seconds(5)),
     seconds(304),
     false,
     "node-gone-lately",
     seconds(305)},
    {"NodeGoneAndNobodyKnowsThePod",
     Cause::kUnknown,
     seconds(0),
     0,
     seconds(0),
     GoneSince(seconds(0)),
     seconds(300),
     true,
     "",
     kNever},
    {"OutOfService", Cause::kVanished, seconds(30), 0, seconds(0), kOutOfService, seconds(1), true, "", kNever},
    {"OutOfServiceButReady",
     Cause::kVanished,
     seconds(30),
     1,
     seconds(9),
     {.exists = true, .is_ready = true, .is_out_of_service = true},
     seconds(99),
     false,
     "node-not-heard-of",
     seconds(100)},
};
INSTANTIATE_TEST_SUITE_P(Table, JudgeTest, testing::ValuesIn(kJudgeCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::reconciler
