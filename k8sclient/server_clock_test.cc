// SPDX-License-Identifier: Apache-2.0
// ServerClock: what it learns from answers, and which time it returns.
#include "k8sclient/server_clock.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "k8sclient/testing/date_adder.h"
#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/scripted_api.h"

namespace berth::k8sclient {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

struct LearnCase {
  const char* name;
  std::int64_t estimate_ms;
  std::int64_t date_s;
  std::int64_t sent_ms;
  std::int64_t received_ms;
  std::int64_t wanted_ms;
};

class LearnTable : public ::testing::TestWithParam<LearnCase> {};

TEST_P(LearnTable, MovesNoFurtherThanTheAnswerAsks) {
  const LearnCase& c = GetParam();
  testing::FakeClock local;
  ServerClock clock(local);
  clock.Recall(std::to_string(nanoseconds(milliseconds(c.estimate_ms)).count()) + " 0");
  clock.Learn(std::chrono::sys_seconds(seconds(c.date_s)), milliseconds(c.sent_ms), milliseconds(c.received_ms));
  EXPECT_EQ(clock.WallNow().time_since_epoch() - local.SinceBoot(), milliseconds(c.wanted_ms));
}

// The server answered at a server time from 1000 s to 1001 s.
const LearnCase kLearnCases[] = {
    {"RightStays", 900'000, 1000, 100'200, 100'300, 900'000},
    {"EarliestIsRight", 899'700, 1000, 100'200, 100'300, 899'700},
    {"TooEarly", 899'600, 1000, 100'200, 100'300, 899'700},
    {"LatestIsRight", 900'800, 1000, 100'200, 100'300, 900'800},
    {"TooLate", 900'900, 1000, 100'200, 100'300, 900'800},
    {"FarTooLate", 90'000'000'000, 1000, 100'200, 100'300, 900'800},
    {"ASlowAnswerSaysLess", 890'500, 1000, 100'000, 110'000, 890'500},
    {"AWatchSaysWhatTheTimeIsNotAfter", 905'000, 1000, 100'000, 3'700'000, 901'000},
};
INSTANTIATE_TEST_SUITE_P(Table, LearnTable, ::testing::ValuesIn(kLearnCases),
                         [](const auto& c) { return std::string(c.param.name); });

class ServerClockTest : public ::testing::Test {
 protected:
  // Lets the clock learn from an answer without delay.
  void Answer(ServerClock& clock, system_clock::time_point server_now) {
    clock.Learn(std::chrono::floor<seconds>(server_now), local_.SinceBoot(), local_.SinceBoot());
  }

  testing::FakeClock local_;
  std::vector<std::string> notes_;
  ServerClock clock_{local_, [this](const std::string& note) { notes_.push_back(note); }};
};

TEST_F(ServerClockTest, IsTheLocalClockBeforeTheFirstAnswer) {
  EXPECT_EQ(clock_.WallNow(), local_.WallNow());
  EXPECT_EQ(clock_.Difference(), std::nullopt);
}

TEST_F(ServerClockTest, FollowsTheServerToASecond) {
  for (const auto error : {hours(-24 * 365 * 20), hours(-1), hours(1), hours(24 * 365 * 20)}) {
    const auto server = [&] { return local_.WallNow() - error; };
    Answer(clock_, server());
    EXPECT_LE(std::chrono::abs(clock_.WallNow() - server()), seconds(1)) << error.count();
    EXPECT_LE(std::chrono::abs(*clock_.Difference() - error), seconds(1));
    local_.Advance(hours(1));
    EXPECT_LE(std::chrono::abs(clock_.WallNow() - server()), seconds(1)) << "time goes on";
    local_.Suspend(hours(1));
    EXPECT_LE(std::chrono::abs(clock_.WallNow() - server()), seconds(1)) << "while the machine is suspended, too";
  }
}

TEST_F(ServerClockTest, StaysTheLocalClockWhileBothAgree) {
  for (int i = 0; i < 100; ++i) {
    Answer(clock_, local_.WallNow());
    local_.Advance(milliseconds(337));
    EXPECT_EQ(clock_.WallNow(), local_.WallNow());
  }
}

TEST_F(ServerClockTest, TellsOnceThatTheClocksDiffer) {
  const auto after_error = [&](seconds error) {
    Answer(clock_, local_.WallNow() - error);
    return clock_.TakeNews();
  };
  EXPECT_FALSE(clock_.TakeNews());
  EXPECT_FALSE(after_error(seconds(3)));
  const auto ahead = after_error(seconds(600));
  ASSERT_TRUE(ahead);
  EXPECT_TRUE(ahead->is_wrong);
  EXPECT_NE(ahead->text.find(" s ahead of the API server's"), std::string::npos) << ahead->text;
  EXPECT_FALSE(after_error(seconds(700)));
  const auto right = after_error(seconds(0));
  ASSERT_TRUE(right);
  EXPECT_FALSE(right->is_wrong);
  EXPECT_FALSE(after_error(seconds(0)));
  const auto behind = after_error(seconds(-600));
  ASSERT_TRUE(behind);
  EXPECT_NE(behind->text.find(" s behind the API server's"), std::string::npos) << behind->text;
}

TEST_F(ServerClockTest, ANoteTellsTheNextProcess) {
  Answer(clock_, local_.WallNow() - hours(3));
  Answer(clock_, local_.WallNow() - hours(3));
  ASSERT_EQ(notes_.size(), 1U) << "the second answer said nothing new";
  local_.Advance(hours(1));
  ServerClock next(local_);
  next.Recall(notes_.front());
  EXPECT_EQ(next.WallNow(), clock_.WallNow());
  EXPECT_EQ(next.Difference(), clock_.Difference());
}

TEST_F(ServerClockTest, AnInvalidNoteChangesNothing) {
  const std::string after_boot = std::to_string((local_.SinceBoot() + seconds(1)).count());
  for (const std::string& note : {std::string(),
                                  std::string("x"),
                                  std::string("1"),
                                  std::string("1 x"),
                                  std::string("99999999999999999999 1"),
                                  "1 " + after_boot}) {
    ServerClock next(local_);
    next.Recall(note);
    EXPECT_EQ(next.WallNow(), local_.WallNow()) << note;
  }
}

TEST_F(ServerClockTest, AnAnswerCountsMoreThanANote) {
  Answer(clock_, local_.WallNow() - hours(3));
  ServerClock next(local_);
  Answer(next, local_.WallNow());
  next.Recall(notes_.front());
  EXPECT_EQ(next.WallNow(), local_.WallNow());
}

TEST_F(ServerClockTest, LearnsFromTheAnswersOfAnApi) {
  testing::ScriptedApi scripted;
  testing::DateAdder server(scripted, [this] { return local_.WallNow() + hours(2); });
  DatedApi api(server, clock_);
  ASSERT_TRUE(api.Call({.path = "/api"}, {}).has_value());
  EXPECT_LE(std::chrono::abs(*clock_.Difference() + hours(2)), seconds(1));
}

}  // namespace
}  // namespace berth::k8sclient
