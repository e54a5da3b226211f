// SPDX-License-Identifier: Apache-2.0
// Tests TrustIn and MayGive: when an address on standby may be given.
#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

const Now kTrustNow = {.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)};

Now Later(std::chrono::nanoseconds time) {
  return {.steady = kTrustNow.steady + time, .since_boot = kTrustNow.since_boot + time};
}

// A core with a proof at kTrustNow, and one block: b1 holds .7, and .1, .2 and .3 are on standby.
struct TrustedCore {
  explicit TrustedCore(std::size_t standby = 3)
      : core({.self = {.node = "n1", .instance = "m-me"}, .standby = standby}) {
    News news;
    core.TakeProof(kTrustNow.since_boot, /*is_kept=*/true, kTrustNow, news);
    ipam::Block block = EmptyBlock(*TestPoolView());
    block.allocations[7] = EntryText("b1");
    block.standby = {1, 2, 3};
    const auto view = std::make_shared<const ipam::Block>(std::move(block));
    core.Insert(view, view, kTrustNow, news);
    state = core.Find(view->name);
  }
  Core core;
  Core::StatePointer state;
};

struct TrustCase {
  const char* name;
  std::function<void(TrustedCore&)> arrange;
  Trust trust;
  std::string may_give = "-";
  std::chrono::seconds later{0};
  friend void PrintTo(const TrustCase& one, std::ostream* out) { *out << one.name; }
};
class TrustTable : public testing::TestWithParam<TrustCase> {};

TEST_P(TrustTable, SaysWhatMayBeGiven) {
  TrustedCore one;
  GetParam().arrange(one);
  EXPECT_EQ(one.core.TrustIn(*one.state, Later(GetParam().later)), GetParam().trust);
  EXPECT_EQ(ShownOffsets(one.core.MayGive(*one.state, Later(GetParam().later))), GetParam().may_give);
}

HandedOut Given(const char* name, bool is_refused = false) {
  return {.id = 1, .attachment = AttachmentNamed(name), .entry = EntryText(name), .is_refused = is_refused};
}
void ProveAt(TrustedCore& one, std::chrono::seconds later, bool is_kept = true) {
  News news;
  one.core.TakeProof(kTrustNow.since_boot + later, is_kept, Later(later), news);
}

const TrustCase kTrustCases[] = {
    {"AProvedBlock", [](auto&) {}, Trust::kGives, "1-3"},
    {"WhatWasHandedOutIsNotGivenTwice",
     [](auto& one) { one.state->handed_out[2] = Given("a1"); },
     Trust::kGives,
     "1,3"},
    {"WhatAPatchTakesOffStandbyIsNotGiven", [](auto& one) { one.state->leaving = {1}; }, Trust::kGives, "2-3"},
    {"AWriteThatFailed", [](auto& one) { one.state->is_failing = true; }, Trust::kMustWrite},
    {"AWriteInDoubt", [](auto& one) { one.state->doubt_version = "1"; }, Trust::kMustWrite},
    {"ARefusedEntry", [](auto& one) { one.state->handed_out[2] = Given("a1", true); }, Trust::kOff},
    {"ABlockThatGoes",
     [](auto& one) {
       ipam::Block block = *one.state->view;
       block.deleting = true;
       one.state->view = std::make_shared<const ipam::Block>(block);
     },
     Trust::kOff},
    {"AContestedBlock",
     [](auto& one) { one.state->foreign_agent = ForeignAgent{.agent = "other-1.1", .came_back = true}; },
     Trust::kOff},
    {"AForeignAgentThatDidNotComeBack",
     [](auto& one) { one.state->foreign_agent = ForeignAgent{.agent = "other-1.1"}; },
     Trust::kGives,
     "1-3"},
    {"AProofThatIsAlmostTooOld", [](auto&) {}, Trust::kGives, "1-3", std::chrono::seconds(59)},
    {"AProofThatIsTooOld", [](auto&) {}, Trust::kLapsed, "-", std::chrono::seconds(60)},
    {"AProofInTime",
     [](auto& one) { ProveAt(one, std::chrono::seconds(59)); },
     Trust::kGives,
     "1-3",
     std::chrono::seconds(70)},
    {"AProofOfAnotherBlockAfterALapse",
     [](auto& one) { ProveAt(one, std::chrono::seconds(60)); },
     Trust::kLapsed,
     "-",
     std::chrono::seconds(61)},
    {"AProofOfThisBlockAfterALapse",
     [](auto& one) {
       ProveAt(one, std::chrono::seconds(60));
       one.state->proved = Later(std::chrono::seconds(60)).since_boot;
     },
     Trust::kGives,
     "1-3",
     std::chrono::seconds(61)},
    {"AnApiServerThatDropsStandby",
     [](auto& one) { ProveAt(one, std::chrono::seconds(0), /*is_kept=*/false); },
     Trust::kOff},
};
INSTANTIATE_TEST_SUITE_P(Table, TrustTable, testing::ValuesIn(kTrustCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(TrustIn, IsOffWhereNoStandbyIsWanted) {
  const TrustedCore one(/*standby=*/0);
  EXPECT_EQ(one.core.TrustIn(*one.state, kTrustNow), Trust::kOff);
}

TEST(TrustIn, IsLapsedBeforeTheFirstProof) {
  const TrustedCore one;
  const Core unproved({.self = {.node = "n1", .instance = "m-me"}, .standby = 3});
  EXPECT_EQ(unproved.TrustIn(*one.state, kTrustNow), Trust::kLapsed);
}

TEST(Proof, IsDueAfterHalfAMinuteUnlessStandbyIsDropped) {
  TrustedCore one;
  EXPECT_FALSE(one.core.IsProofDue(Later(std::chrono::seconds(29))));
  EXPECT_TRUE(one.core.IsProofDue(Later(std::chrono::seconds(30))));
  ProveAt(one, std::chrono::seconds(0), /*is_kept=*/false);
  EXPECT_FALSE(one.core.IsProofDue(Later(std::chrono::seconds(30))));
}

TEST(Proof, OfWhatIsDroppedIsToldOnce) {
  TrustedCore one;
  News news;
  one.core.TakeProof(kTrustNow.since_boot, /*is_kept=*/false, kTrustNow, news);
  one.core.TakeProof(kTrustNow.since_boot, /*is_kept=*/false, kTrustNow, news);
  ASSERT_EQ(news.reports.size(), 1U);
  EXPECT_EQ(news.reports[0].kind, Report::Kind::kStandbyNotKept);
}

// The core writes a handed-out address within 20 ms (kLinger), and at once when at most half of the standby is left.
TEST(HandOut, IsWrittenAtOnceWhereStandbyRunsLow) {
  TrustedCore one;
  const auto hand_out = [&one](const char* name) {
    return one.core.HandOut(*one.state, Taking(TestPoolView(), name), kTrustNow).has_value();
  };
  EXPECT_EQ(Core::DueOf(*one.state), SteadyTime::max());
  ASSERT_TRUE(hand_out("a1"));
  EXPECT_EQ(Core::DueOf(*one.state), kTrustNow.steady + kLinger);
  ASSERT_TRUE(hand_out("a2"));
  EXPECT_EQ(Core::DueOf(*one.state), kTrustNow.steady + kLinger) << "two of three are left";
  ASSERT_TRUE(hand_out("a3"));
  EXPECT_EQ(Core::DueOf(*one.state), kTrustNow.steady);
  EXPECT_EQ(one.state->queue.size(), 2U);
}

// A caller may withdraw its change, so a change with a caller does not count.
TEST(HandOut, AddsADeferredChangeAlsoWhileACallersChangeWaits) {
  TrustedCore one;
  static_cast<void>(one.core.Submit(*one.state, Taking(TestPoolView(), "a2"), kTrustNow.steady));
  const auto given = one.core.HandOut(*one.state, Taking(TestPoolView(), "a1"), kTrustNow);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->due, kTrustNow.steady + kLinger);
}

TEST(HandOut, IsWrittenAtOnceWhereHalfOfTheStandbyIsLeft) {
  TrustedCore one;
  ipam::Block block = *one.state->view;
  block.standby = {1, 2, 3, 4};
  one.state->view = std::make_shared<const ipam::Block>(block);
  for (const char* const name : {"a1", "a2"}) {
    static_cast<void>(one.core.HandOut(*one.state, Taking(TestPoolView(), name), kTrustNow));
    EXPECT_EQ(Core::DueOf(*one.state), kTrustNow.steady + kLinger);
  }
  static_cast<void>(one.core.HandOut(*one.state, Taking(TestPoolView(), "a3"), kTrustNow));
  EXPECT_EQ(Core::DueOf(*one.state), kTrustNow.steady);
}

TEST(Linger, IsAsLongAsAPatchWithinBounds) {
  BlockState state;
  EXPECT_EQ(Core::LingerOf(state), kLinger);
  state.patch_latency = std::chrono::milliseconds(100);
  EXPECT_EQ(Core::LingerOf(state), std::chrono::milliseconds(100));
  state.patch_latency = std::chrono::seconds(3);
  EXPECT_EQ(Core::LingerOf(state), kLingerMax);
}

TEST(HasDeferred, IsTrueUntilTheDeferredChangeIsWritten) {
  TrustedCore one;
  News news;
  EXPECT_FALSE(one.core.HasDeferred());
  one.core.SubmitDeferred(*one.state, Releasing("b1"), kLinger, kTrustNow);
  EXPECT_TRUE(one.core.HasDeferred());
  one.state->is_sending = true;
  one.core.Begin(*one.state, kTrustNow.steady);
  ipam::Block written = std::get<Write>(one.core.Next(*one.state, kTrustNow, news)).after;
  EXPECT_TRUE(one.core.HasDeferred());
  written.resource_version = "2";
  one.core.Answer(*one.state, std::make_shared<const ipam::Block>(written), kTrustNow, kTrustNow, news);
  EXPECT_FALSE(one.core.HasDeferred());
}

}  // namespace
}  // namespace berth::agent_core
