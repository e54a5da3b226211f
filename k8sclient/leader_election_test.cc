// SPDX-License-Identifier: Apache-2.0
// Leader election: a table of one candidate's decisions, and whole elections with a Lease in memory.
#include "k8sclient/leader_election.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/scripted_api.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeClock;
using testing::ScriptedApi;

constexpr char kNow[] = "2026-03-01T12:00:00.000000Z";
const Candidate::TimePoint kStart = Candidate::TimePoint() + std::chrono::hours(1);

TEST(Candidate, CreatesALeaseThatIsMissing) {
  Candidate me("me", {});
  const auto decision = me.Decide(std::nullopt, kStart, kNow);
  ASSERT_TRUE(std::holds_alternative<Lease>(decision));
  EXPECT_EQ(std::get<Lease>(decision),
            (Lease{.holder = "me", .duration_seconds = 15, .acquire_time = kNow, .renew_time = kNow}));
}

TEST(Candidate, LeavesALeaseAloneUntilItsDurationHasPassedWithoutARenewal) {
  const Lease theirs{.holder = "other", .duration_seconds = 30, .renew_time = "1999-01-01T00:00:00.000000Z"};
  Candidate me("me", {});
  EXPECT_TRUE(std::holds_alternative<Candidate::HeldBy>(me.Decide(theirs, kStart, kNow)));
  EXPECT_TRUE(std::holds_alternative<Candidate::HeldBy>(me.Decide(theirs, kStart + seconds(29), kNow)));
  EXPECT_TRUE(std::holds_alternative<Lease>(me.Decide(theirs, kStart + seconds(30), kNow)));
}

TEST(Candidate, ARenewedLeaseStartsTheClockAnew) {
  Lease theirs{.holder = "other", .duration_seconds = 15, .renew_time = "a"};
  Candidate me("me", {});
  (void)me.Decide(theirs, kStart, kNow);
  theirs.renew_time = "b";
  (void)me.Decide(theirs, kStart + seconds(10), kNow);
  EXPECT_TRUE(std::holds_alternative<Candidate::HeldBy>(me.Decide(theirs, kStart + seconds(24), kNow)));
}

TEST(Candidate, TakesAReleasedLeaseAtOnceAndCountsTheChange) {
  const Lease released{.holder = "", .duration_seconds = 1, .acquire_time = "a", .renew_time = "a", .transitions = 4};
  Candidate me("me", {});
  const auto decision = me.Decide(released, kStart, kNow);
  ASSERT_TRUE(std::holds_alternative<Lease>(decision));
  EXPECT_EQ(
      std::get<Lease>(decision),
      (Lease{.holder = "me", .duration_seconds = 15, .acquire_time = kNow, .renew_time = kNow, .transitions = 5}));
}

TEST(Candidate, RenewalKeepsTheAcquireTime) {
  const Lease ours{.holder = "me", .duration_seconds = 15, .acquire_time = "a", .renew_time = "b", .transitions = 4};
  Candidate me("me", {});
  const auto decision = me.Decide(ours, kStart, kNow);
  ASSERT_TRUE(std::holds_alternative<Lease>(decision));
  EXPECT_EQ(std::get<Lease>(decision),
            (Lease{.holder = "me", .duration_seconds = 15, .acquire_time = "a", .renew_time = kNow, .transitions = 4}));
}

// A server with one Lease in memory. Refuses every request while `away`.
class LeaseServer {
 public:
  Expected<Response> Answer(const Request& request) {
    const std::lock_guard lock(mutex_);
    if (away) return Fail(ErrorCode::kUnavailable, "away");
    if (request.method == Method::kPost) return lease_.is_null() ? Store(json::parse(request.body), 201) : Conflict();
    if (lease_.is_null()) {
      return Response{.status = 404, .body = R"({"kind":"Status","details":{"name":"berth"}})"};
    }
    if (request.method == Method::kGet) return Response{.status = 200, .body = lease_.dump()};
    const json patch = json::parse(request.body);
    if (patch["metadata"]["resourceVersion"] != lease_["metadata"]["resourceVersion"]) return Conflict();
    json merged = lease_;
    merged.merge_patch(patch);
    return Store(merged, 200);
  }
  void TakeFor(const std::string& holder) {
    const std::lock_guard lock(mutex_);
    lease_["spec"]["holderIdentity"] = holder;
    (void)Store(lease_, 200);
  }
  std::string holder() {
    const std::lock_guard lock(mutex_);
    return lease_.is_null() ? "(none)" : lease_["spec"]["holderIdentity"].get<std::string>();
  }
  std::atomic<bool> away = false;

 private:
  static Response Conflict() { return {.status = 409, .body = R"({"kind":"Status","reason":"Conflict"})"}; }
  Response Store(json lease, int status) {
    lease_ = std::move(lease);
    lease_["metadata"]["resourceVersion"] = std::to_string(++version_);
    return {.status = status, .body = lease_.dump()};
  }

  std::mutex mutex_;
  json lease_;
  int version_ = 0;
};

class LeaderElectorTest : public ::testing::Test {
 protected:
  LeaderElectorTest() {
    api_.on_call = [this](const Request& request) { return server_.Answer(request); };
  }
  LeaderElector Elector() { return {api_, clock_, {.path = "/leases", .name = "berth", .identity = "me"}}; }

  LeaseServer server_;
  ScriptedApi api_;
  FakeClock clock_;
  std::stop_source stop_;
};

// A leader that does nothing and waits until its token requests a stop.
void LeadUntilStopped(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any asked;
  std::unique_lock lock(mutex);
  asked.wait(lock, stop, [] { return false; });
}

TEST_F(LeaderElectorTest, LeadsRenewsAndGivesTheLeaseBack) {
  clock_.on_sleep = [this](auto) {
    if (clock_.slept().size() == 5) stop_.request_stop();
  };
  bool led = false;
  const auto done = Elector().Run(stop_.get_token(), [&](const std::stop_token& stop) {
    led = true;
    EXPECT_EQ(server_.holder(), "me");
    LeadUntilStopped(stop);
  });
  EXPECT_TRUE(done.has_value());
  EXPECT_TRUE(led);
  EXPECT_EQ(server_.holder(), "");
  // A GET and a POST, then one PATCH without a GET for each renewal and for the release.
  const auto requests = api_.requests();
  EXPECT_EQ(std::ranges::count(requests, Method::kGet, &Request::method), 1);
  EXPECT_EQ(std::ranges::count(requests, Method::kPatch, &Request::method), 4 + 1);
}

TEST_F(LeaderElectorTest, ALeaderThatReturnsGivesTheLeaseBack) {
  const auto done = Elector().Run(stop_.get_token(), [](const std::stop_token&) {});
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(server_.holder(), "");
}

TEST_F(LeaderElectorTest, StopsLeadingWhenAnotherHasTakenTheLease) {
  clock_.on_sleep = [this](auto) { server_.TakeFor("other"); };
  const auto done = Elector().Run(stop_.get_token(), &LeadUntilStopped);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kConflict);
  EXPECT_EQ(server_.holder(), "other") << "what is not ours is not given back";
}

TEST_F(LeaderElectorTest, RenewsEveryTwoSecondsFromTheStartOfTheLastRenewal) {
  api_.on_call = [this](const Request& request) {
    if (request.method != Method::kGet) clock_.Advance(milliseconds(500));
    return server_.Answer(request);
  };
  clock_.on_sleep = [this](auto) {
    if (clock_.slept().size() == 3) stop_.request_stop();
  };
  const auto done = Elector().Run(stop_.get_token(), &LeadUntilStopped);
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(clock_.slept(), std::vector(3, milliseconds(1500)));
}

// The process is stopped (SIGSTOP) before it gets the answer to its second write, or its first.
TEST_F(LeaderElectorTest, LooksAtTheLeaseAtOnceAfterAWriteThatTookLong) {
  for (const int writes_before : {0, 1}) {
    LeaseServer server;
    FakeClock clock;
    int writes = 0;
    api_.on_call = [&](const Request& request) {
      auto answer = server.Answer(request);
      if (request.method != Method::kGet && writes++ == writes_before) {
        clock.Advance(seconds(20));
        server.TakeFor("other");
      }
      return answer;
    };
    LeaderElector elector(api_, clock, {.path = "/leases", .name = "berth", .identity = "me"});
    const auto done = elector.Run(stop_.get_token(), &LeadUntilStopped);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kConflict);
    EXPECT_EQ(clock.slept().back(), milliseconds(0)) << writes_before;
  }
}

TEST_F(LeaderElectorTest, StopsLeadingBeforeTheLeaseRunsOutWhenTheServerIsAway) {
  clock_.on_sleep = [this](auto) { server_.away = true; };
  const auto done = Elector().Run(stop_.get_token(), &LeadUntilStopped);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  std::chrono::milliseconds waited{};
  for (const auto wait : clock_.slept()) waited += wait;
  EXPECT_LE(waited, seconds(10));
}

TEST_F(LeaderElectorTest, SurvivesAnOutageShorterThanTheRenewDeadline) {
  clock_.on_sleep = [this](auto) {
    const std::size_t count = clock_.slept().size();
    server_.away = count >= 2 && count <= 4;
    if (count == 20) stop_.request_stop();
  };
  const auto done = Elector().Run(stop_.get_token(), &LeadUntilStopped);
  EXPECT_TRUE(done.has_value()) << done.error().message;
}

TEST_F(LeaderElectorTest, TakesOverWhenTheHolderIsSilent) {
  (void)server_.Answer({.method = Method::kPost, .path = "/leases", .body = R"({"spec":{"leaseDurationSeconds":15}})"});
  server_.TakeFor("dead");
  const auto before = clock_.Now();
  std::optional<Candidate::TimePoint> taken_at;
  api_.on_call = [&](const Request& request) {
    if (request.method == Method::kPatch && !taken_at) taken_at = clock_.Now();
    return server_.Answer(request);
  };
  const auto done =
      Elector().Run(stop_.get_token(), [this](const std::stop_token&) { EXPECT_EQ(server_.holder(), "me"); });
  EXPECT_TRUE(done.has_value());
  ASSERT_TRUE(taken_at.has_value());
  EXPECT_GE(*taken_at - before, seconds(15));
  EXPECT_LT(*taken_at - before, std::chrono::milliseconds(15'010)) << "as soon as the lease has run out";
}

TEST_F(LeaderElectorTest, LeavesANoteToTheNextLeader) {
  const ElectionOptions options{.path = "/leases", .name = "berth", .identity = "me", .note_key = "berth/note"};
  for (const std::string before : {"", "7", "8"}) {
    LeaderElector elector(api_, clock_, options);
    elector.note = [&before] { return before.empty() ? "7" : "8"; };
    const auto done =
        elector.Run(stop_.get_token(), [&](const std::stop_token&) { EXPECT_EQ(elector.found_note(), before); });
    EXPECT_TRUE(done.has_value());
  }
}

TEST_F(LeaderElectorTest, ACandidateThatIsStoppedNeverLeads) {
  (void)server_.Answer(
      {.method = Method::kPost, .path = "/leases", .body = R"({"spec":{"leaseDurationSeconds":3600}})"});
  server_.TakeFor("other");
  clock_.on_sleep = [this](auto) { stop_.request_stop(); };
  const auto done = Elector().Run(stop_.get_token(), [](const std::stop_token&) { FAIL() << "leads"; });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(server_.holder(), "other");
}

TEST_F(LeaderElectorTest, DoesNotWriteALeaseWithoutAReadableVersion) {
  for (const char* lease :
       {R"({"metadata":"text"})", R"({"metadata":{"annotations":5}})", R"({"metadata":{"resourceVersion":5}})"}) {
    api_.on_call = [&](const Request& request) {
      EXPECT_EQ(request.method, Method::kGet);
      return Response{.status = 200, .body = lease};
    };
    std::stop_source stop;
    clock_.on_sleep = [&](auto) { stop.request_stop(); };
    LeaderElector elector = Elector();
    Error error{.code = ErrorCode::kIo, .message = {}};
    elector.on_failure = [&](const Error& failure) { error = failure; };
    EXPECT_TRUE(elector.Run(stop.get_token(), [](const std::stop_token&) { FAIL() << "leads"; }).has_value());
    EXPECT_EQ(error.code, ErrorCode::kInternal);
  }
}

TEST_F(LeaderElectorTest, DoesNotLeadIfTheAnswerToItsWriteHasNoVersion) {
  api_.on_call = [](const Request& request) {
    if (request.method == Method::kGet) {
      return Response{.status = 404, .body = R"({"kind":"Status","details":{"name":"berth"}})"};
    }
    return Response{.status = 201, .body = R"({"metadata":{"name":"berth"},"spec":{"holderIdentity":"me"}})"};
  };
  clock_.on_sleep = [this](auto) { stop_.request_stop(); };
  const auto done = Elector().Run(stop_.get_token(), [](const std::stop_token&) { FAIL() << "leads"; });
  EXPECT_TRUE(done.has_value());
}

// Requests a stop of the process during its first write of the Lease. If the call may be stopped, the write gets no
// answer.
class StoppedAtFirstWrite final : public Api {
 public:
  StoppedAtFirstWrite(LeaseServer& server, std::stop_source& stop) : server_(server), stop_(stop) {}

  Expected<Response> Call(const Request& request, const CallOptions& options) override {
    auto answer = server_.Answer(request);
    if (request.method == Method::kGet) return answer;
    stop_.request_stop();
    if (options.stop.stop_requested()) return Fail(ErrorCode::kUnknownOutcome, "given up");
    return answer;
  }
  Expected<Response> Watch(const Request&, const WatchOptions&, const WatchSink&) override {
    return Fail(ErrorCode::kUnavailable, "nothing to watch");
  }

 private:
  LeaseServer& server_;
  std::stop_source& stop_;
};

TEST_F(LeaderElectorTest, ACandidateThatIsStoppedWhileItTakesTheLeaseGivesItBack) {
  StoppedAtFirstWrite api(server_, stop_);
  LeaderElector elector(api, clock_, {.path = "/leases", .name = "berth", .identity = "me"});
  const auto done = elector.Run(stop_.get_token(), &LeadUntilStopped);
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(server_.holder(), "") << "the next one would have to wait until the lease runs out";
}

}  // namespace
}  // namespace berth::k8sclient
