// SPDX-License-Identifier: Apache-2.0
// Reflector: which LISTs and watches it sends, and what it tells the handler.
#include "k8sclient/reflector.h"

#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/scripted_api.h"
#include "k8sclient/testing/slow_pages.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;
using testing::FakeClock;
using testing::QueryValue;
using testing::ScriptedApi;

std::string Event(const std::string& type, const std::string& name, const std::string& version) {
  return json{{"type", type}, {"object", {{"metadata", {{"name", name}, {"resourceVersion", version}}}}}}.dump();
}

std::string Gone() {
  return R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})";
}

Response TooLarge() {
  const char* const body =
      R"({"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}})";
  return {.status = 504, .body = body};
}

Response ListOf(const std::vector<std::string>& names, const std::string& version) {
  json items = json::array();
  for (const std::string& name : names) items.push_back({{"metadata", {{"name", name}}}});
  return {.status = 200, .body = json{{"items", items}, {"metadata", {{"resourceVersion", version}}}}.dump()};
}

// Records each call as one line.
class Recorder final : public ReflectorHandler {
 public:
  std::vector<std::string> lines;
  std::string reached;
  void Reached(const std::string& resource_version) override { reached = resource_version; }
  void BeginList() override { list_ = "replace"; }
  void Listed(json object) override { list_ += " " + Name(object); }
  void EndList(const std::string& resource_version) override {
    lines.push_back(list_);
    reached = resource_version;
  }
  void Upsert(json object) override { lines.push_back("upsert " + Name(object)); }
  void Delete(json object) override { lines.push_back("delete " + Name(object)); }
  void Failed(const Error& error, std::chrono::milliseconds wait) override {
    lines.push_back("failed " + std::string(ToString(error.code)) + " wait " + std::to_string(wait.count()));
  }

 private:
  std::string list_;
  static std::string Name(const json& object) { return object["metadata"].value("name", "(none)"); }
};

// One watch: the lines that it sends, and how it ends.
struct WatchScript {
  std::vector<std::string> lines;
  Expected<Response> end = Response{.status = 200};
  std::chrono::minutes takes{5};  // the shortest time that the Reflector requests
};

class ReflectorTest : public ::testing::Test {
 protected:
  // Runs the Reflector until it has used both scripts and sends one more request.
  void RunScripts() {
    api_.on_call = [this](const Request& request) -> Expected<Response> {
      if (IsVersionCheck(request)) return version_check_;
      if (lists_.empty()) return Stop();
      Expected<Response> answer = std::move(lists_.front());
      lists_.pop_front();
      return answer;
    };
    api_.on_watch = [this](const Request&, const WatchOptions&, const WatchSink& sink) -> Expected<Response> {
      if (watches_.empty()) return Stop();
      const WatchScript script = std::move(watches_.front());
      watches_.pop_front();
      clock_.Advance(script.takes);
      for (const std::string& line : script.lines) {
        if (!sink(line)) return Response{.status = 200};
      }
      return script.end;
    };
    Reflector(api_, recorder_, clock_, options_).Run(stop_.get_token());
  }

  Expected<Response> Stop() {
    stop_.request_stop();
    return Fail(ErrorCode::kTimeout, "stopped");
  }

  // True for the request of Reflector::CheckVersion.
  static bool IsVersionCheck(const Request& request) { return QueryValue(request, "limit") == "1"; }

  // The requests as "list rv=.. match=..", "watch rv=..", and "look rv=.." for a version check.
  std::vector<std::string> Requests() const {
    std::vector<std::string> lines;
    for (const Request& request : api_.requests()) {
      const bool watch = QueryValue(request, "watch") == "true";
      const bool look = IsVersionCheck(request);
      lines.push_back((watch  ? "watch rv="
                       : look ? "look rv="
                              : "list rv=") +
                      QueryValue(request, "resourceVersion") +
                      (watch || look ? "" : " match=" + QueryValue(request, "resourceVersionMatch")));
    }
    return lines;
  }

  ScriptedApi api_;
  FakeClock clock_;
  Recorder recorder_;
  std::stop_source stop_;
  ReflectorOptions options_{.path = "/apis/ipam.berth.dev/v1alpha1/ipblocks"};
  std::deque<Expected<Response>> lists_;
  std::deque<WatchScript> watches_;
  Response version_check_{.status = 200};
};

using Lines = std::vector<std::string>;

TEST_F(ReflectorTest, ListsFromTheServersCacheThenWatchesFromThatVersion) {
  lists_ = {ListOf({"a", "b"}, "10")};
  watches_ = {{.lines = {Event("ADDED", "c", "11"), Event("MODIFIED", "a", "12"), Event("DELETED", "b", "13")}}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a b", "upsert c", "upsert a", "delete b"}));
  EXPECT_EQ(Requests(), (Lines{"list rv=0 match=(none)", "watch rv=10", "watch rv=13"}));
}

TEST_F(ReflectorTest, PausesAfterAnEventThatItWaitedForAndNotAfterTheNextOnes) {
  options_.pause = std::chrono::milliseconds(250);
  lists_ = {ListOf({}, "10")};
  watches_ = {{.lines = {Event("ADDED", "a", "11"), Event("ADDED", "b", "12"), Event("ADDED", "c", "13")}}};
  RunScripts();
  EXPECT_EQ(clock_.slept(), std::vector{options_.pause});
}

TEST_F(ReflectorTest, SkippedFieldsAreNotHandedOver) {
  options_.fields = {.members = {{"metadata", {.skipped = {"name"}}}}};
  lists_ = {ListOf({}, "10")};
  watches_ = {{.lines = {Event("ADDED", "a", "11")}}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace", "upsert (none)"}));
}

TEST_F(ReflectorTest, AListInPagesIsConsistent) {
  options_.in_pages = true;
  Response first = ListOf({"a"}, "10");
  json body = json::parse(first.body);
  body["metadata"]["continue"] = "token";
  first.body = body.dump();
  lists_ = {first, ListOf({"b"}, "10")};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a b"}));
  EXPECT_EQ(Requests(), (Lines{"list rv=(none) match=(none)", "list rv=(none) match=(none)", "watch rv=10"}));
  EXPECT_EQ(QueryValue(api_.requests().at(0), "limit"), "500");
  EXPECT_EQ(QueryValue(api_.requests().at(1), "continue"), "token");
}

TEST_F(ReflectorTest, AListOfManySlowPagesArrives) {
  testing::SlowPages api(clock_, 3);
  clock_.on_sleep = [this](std::chrono::milliseconds) { stop_.request_stop(); };
  options_.in_pages = true;
  Reflector(api, recorder_, clock_, options_).Run(stop_.get_token());
  EXPECT_EQ(recorder_.lines.front(), "replace 1 2 3");
}

TEST_F(ReflectorTest, BeginsWithTheCollectionAtTheVersionOfSince) {
  options_.since = "7";
  lists_ = {ListOf({"a"}, "7")};
  watches_ = {{.lines = {Event("DELETED", "a", "9")}}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "delete a"}));
  EXPECT_EQ(Requests(), (Lines{"list rv=7 match=Exact", "watch rv=7", "watch rv=9"}));
  EXPECT_EQ(recorder_.reached, "9");
}

TEST_F(ReflectorTest, SendsTheSelectorBookmarksAndATimeLimitWithTheWatch) {
  options_.field_selector = "metadata.name=a";
  options_.metadata_only = true;
  lists_ = {ListOf({}, "10")};
  watches_ = {{.lines = {}, .end = Fail(ErrorCode::kUnavailable, "reset")}};
  RunScripts();
  const Request list = api_.requests().at(0);
  const Request watch = api_.requests().at(1);
  const Request check = api_.requests().at(2);
  ASSERT_TRUE(IsVersionCheck(check));
  EXPECT_EQ(QueryValue(check, "fieldSelector"), "metadata.name=a");
  EXPECT_EQ(list.accept, kPartialMetadataList);
  EXPECT_EQ(QueryValue(list, "fieldSelector"), "metadata.name=a");
  EXPECT_EQ(watch.accept, kPartialMetadata);
  EXPECT_EQ(QueryValue(watch, "fieldSelector"), "metadata.name=a");
  EXPECT_EQ(QueryValue(watch, "allowWatchBookmarks"), "true");
  EXPECT_EQ(QueryValue(watch, "timeoutSeconds"), "300");
}

TEST_F(ReflectorTest, ABookmarkMovesTheVersionAndHandsOverNoObject) {
  lists_ = {ListOf({"a"}, "10")};
  watches_ = {{.lines = {Event("BOOKMARK", "", "99")}}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a"}));
  EXPECT_EQ(Requests().back(), "watch rv=99");
}

TEST_F(ReflectorTest, GoneInTheStreamListsNotOlderThanSeen) {
  lists_ = {ListOf({"a"}, "10"), ListOf({"b"}, "50")};
  watches_ = {{.lines = {Event("MODIFIED", "a", "20"), Gone()}}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "upsert a", "failed Gone wait 0", "replace b"}));
  EXPECT_EQ(Requests(),
            (Lines{"list rv=0 match=(none)", "watch rv=10", "list rv=20 match=NotOlderThan", "watch rv=50"}));
}

TEST_F(ReflectorTest, ListsAtOnceAfterTheFirstGoneAndLaterAfterTheNextUntilAnEventComes) {
  lists_ = {ListOf({}, "10"), ListOf({}, "20"), ListOf({}, "30"), ListOf({}, "40"), ListOf({}, "50")};
  const WatchScript gone{.lines = {Gone()}};
  watches_ = {
      gone, gone, {.lines = {}, .end = Response{.status = 410}}, {.lines = {Event("ADDED", "a", "41"), Gone()}}};
  RunScripts();
  const Lines want = {"replace",
                      "failed Gone wait 0",
                      "replace",
                      "failed Gone wait 800",
                      "replace",
                      "failed Gone wait 1600",
                      "replace",
                      "upsert a",
                      "failed Gone wait 0",
                      "replace"};
  EXPECT_EQ(recorder_.lines, want);
}

TEST_F(ReflectorTest, GoneAsTheAnswerListsNotOlderThanSeen) {
  lists_ = {ListOf({"a"}, "10"), ListOf({"b"}, "50")};
  watches_ = {{.lines = {}, .end = Response{.status = 410}}};
  RunScripts();
  EXPECT_EQ(Requests().at(2), "list rv=10 match=NotOlderThan");
}

TEST_F(ReflectorTest, AVersionTheServerHasNotReachedLeadsToAConsistentList) {
  lists_ = {ListOf({"a"}, "10"), TooLarge(), ListOf({"b"}, "5")};
  watches_ = {{.lines = {Gone()}}};
  RunScripts();
  EXPECT_EQ(Requests(),
            (Lines{"list rv=0 match=(none)",
                   "watch rv=10",
                   "list rv=10 match=NotOlderThan",
                   "list rv=(none) match=(none)",
                   "watch rv=5"}));
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "failed Gone wait 0", "failed Gone wait 0", "replace b"}));
}

TEST_F(ReflectorTest, ABrokenWatchGoesOnWithoutAList) {
  lists_ = {ListOf({"a"}, "10")};
  watches_ = {{.lines = {Event("MODIFIED", "a", "11")}, .end = Fail(ErrorCode::kUnavailable, "reset")}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "upsert a", "failed Unavailable wait 800"}));
  EXPECT_EQ(Requests().back(), "watch rv=11");
}

// Such a server would send no event in a watch from the version seen last.
TEST_F(ReflectorTest, AServerWhoseBackupWasRestoredIsListedAfterAWatchThatBroke) {
  lists_ = {ListOf({"a"}, "10"), ListOf({"b"}, "5")};
  watches_ = {{.lines = {}, .end = Fail(ErrorCode::kUnavailable, "reset")}};
  version_check_ = TooLarge();
  RunScripts();
  EXPECT_EQ(
      Requests(),
      (Lines{"list rv=0 match=(none)", "watch rv=10", "look rv=10", "list rv=(none) match=(none)", "watch rv=5"}));
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "failed Unavailable wait 800", "failed Gone wait 0", "replace b"}));
}

TEST_F(ReflectorTest, AWatchThatEndsBeforeItsTimeIsFollowedByAVersionCheck) {
  lists_ = {ListOf({"a"}, "10")};
  watches_ = {{.lines = {}, .takes = std::chrono::minutes(1)}};
  RunScripts();
  EXPECT_EQ(Requests(), (Lines{"list rv=0 match=(none)", "watch rv=10", "look rv=10", "watch rv=10"}));
}

TEST_F(ReflectorTest, AWatchThatEndsInItsTimeIsFollowedByTheNext) {
  lists_ = {ListOf({"a"}, "10")};
  watches_ = {{}};
  RunScripts();
  EXPECT_EQ(Requests(), (Lines{"list rv=0 match=(none)", "watch rv=10", "watch rv=10"}));
}

TEST_F(ReflectorTest, WaitsDoubleUpToHalfAMinuteAndStartAnewAfterAnEvent) {
  const auto refused = Fail(ErrorCode::kUnavailable, "refused");
  for (int i = 0; i < 8; ++i) lists_.emplace_back(refused);
  lists_.emplace_back(ListOf({"a"}, "10"));
  watches_ = {{.lines = {Event("MODIFIED", "a", "11")}, .end = refused}};
  RunScripts();
  Lines waits;
  for (const std::string& line : recorder_.lines) {
    if (line.starts_with("failed")) waits.push_back(line.substr(line.rfind(' ') + 1));
  }
  EXPECT_EQ(waits, (Lines{"800", "1600", "3200", "6400", "12800", "25600", "30000", "30000", "800"}));
}

TEST_F(ReflectorTest, WaitsAsLongAsTheServerAsks) {
  lists_ = {Response{.status = 429, .retry_after = std::chrono::seconds(7)}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"failed Unavailable wait 7000"}));
}

TEST_F(ReflectorTest, AWatchThatEndsAtOnceIsAFailure) {
  lists_ = {ListOf({"a"}, "10")};
  int watches = 0;
  api_.on_call = [this](const Request&) { return *lists_.front(); };
  api_.on_watch = [&](const Request&, const WatchOptions&, const WatchSink&) -> Expected<Response> {
    if (++watches == 2) return Stop();
    return Response{.status = 200};
  };
  Reflector(api_, recorder_, clock_, options_).Run(stop_.get_token());
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "failed Unavailable wait 800"}));
}

struct NonsenseCase {
  const char* name;
  const char* line;
};
class ReflectorNonsense : public ReflectorTest, public ::testing::WithParamInterface<NonsenseCase> {};

TEST_P(ReflectorNonsense, IsReportedAndTheWatchGoesOnFromTheLastEvent) {
  lists_ = {ListOf({"a"}, "10")};
  watches_ = {{.lines = {Event("MODIFIED", "a", "11"), GetParam().line, Event("MODIFIED", "a", "12")}}};
  RunScripts();
  EXPECT_EQ(recorder_.lines, (Lines{"replace a", "upsert a", "failed Internal wait 800"}));
  EXPECT_EQ(Requests().back(), "watch rv=11");
}

constexpr NonsenseCase kNonsenseCases[] = {
    {"NotJson", "<html>"},
    {"HalfAnEvent", R"({"type":"MODIFIED","object":{"metad)"},
    {"NoObject", R"({"type":"MODIFIED"})"},
    {"NoType", R"({"object":{}})"},
    {"UnknownType", R"({"type":"RENAMED","object":{}})"},
    {"AList", R"([1])"},
};
INSTANTIATE_TEST_SUITE_P(Table, ReflectorNonsense, ::testing::ValuesIn(kNonsenseCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(ReflectorTest, BeginsWithThePresentCollectionIfTheServerFailsFourTimes) {
  options_.since = "7";
  for (int i = 0; i < 4; ++i) lists_.emplace_back(Response{.status = 500});
  lists_.emplace_back(ListOf({"a"}, "20"));
  RunScripts();
  EXPECT_EQ(recorder_.lines.back(), "replace a");
  EXPECT_EQ(Requests().at(3), "list rv=7 match=Exact");
  EXPECT_EQ(Requests().at(4), "list rv=(none) match=(none)");
}

class ReflectorSince : public ReflectorTest, public ::testing::WithParamInterface<int> {};

TEST_P(ReflectorSince, BeginsWithThePresentCollectionIfTheServerDoesNotHaveTheVersion) {
  const std::string too_large =
      R"({"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}})";
  options_.since = "7";
  lists_ = {Response{.status = GetParam(), .body = GetParam() == 504 ? too_large : std::string()}, ListOf({"a"}, "20")};
  RunScripts();
  EXPECT_EQ(Requests(), (Lines{"list rv=7 match=Exact", "list rv=(none) match=(none)", "watch rv=20"}));
}
INSTANTIATE_TEST_SUITE_P(Table, ReflectorSince, ::testing::Values(410, 400, 504),
                         [](const auto& c) { return std::to_string(c.param); });

}  // namespace
}  // namespace berth::k8sclient
