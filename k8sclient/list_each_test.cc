// SPDX-License-Identifier: Apache-2.0
// ListEach over HTTP: a list whose connection breaks, and a list that the server refuses.
#include <atomic>
#include <chrono>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/http_api.h"
#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/scripted_server.h"
#include "k8sclient/testing/slow_pages.h"
#include "k8sclient/testing/test_api.h"
#include "k8sclient/verbs.h"

namespace berth::k8sclient {
namespace {

using std::chrono::seconds;
using testing::FakeClock;
using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;
using testing::SlowPages;
using testing::Soon;

TEST(ListEach, IsNotSentAgainOnceAnItemWasHandedOver) {
  const ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        R"({"items":[{"a":1},)");
    peer.Reset();
  });
  const auto api = MakeApi({.server = server.url()});
  int count = 0;
  const auto version = ListEach(*api, "/a", {}, Soon(), {.item = [&count](const nlohmann::json&) { ++count; }});
  ASSERT_FALSE(version.has_value());
  EXPECT_EQ(version.error().code, ErrorCode::kUnavailable);
  EXPECT_LE(count, 1);
  EXPECT_EQ(server.connections(), 1);
}

TEST(ListEach, IsSentAgainWhenTheConnectionBrokeBeforeAnyAnswer) {
  const ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    if (peer.index() == 0) return peer.Reset();
    peer.Answer(200, R"({"items":[{"a":1}],"metadata":{"resourceVersion":"7"}})");
  });
  const auto api = MakeApi({.server = server.url()});
  const auto list = List(*api, "/a", {}, Soon());
  ASSERT_TRUE(list.has_value()) << list.error().message;
  EXPECT_EQ(list->items.size(), 1U);
}

TEST(ListEach, StopsReadingAnEndlessListAtTheDeadline) {
  std::atomic<bool> goes_on = true;
  const ScriptedServer server([&goes_on](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(
        "HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n"
        R"({"items":[1)");
    // A list without end, with short items.
    for (const std::string more = ",1,1,1,1,1,1,1"; goes_on;) peer.Send(more);
  });
  const auto api = MakeApi({.server = server.url()});
  const auto list = List(*api, "/a", {}, CallOptions::Within(std::chrono::milliseconds(200)));
  goes_on = false;
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().code, ErrorCode::kTimeout);
}

TEST(ListEach, ARefusalIsReadAndNotHandedOver) {
  const ScriptedServer server([](Peer& peer) {
    if (peer.ReadRequest()) peer.Answer(403, R"({"kind":"Status","reason":"Forbidden","message":"no right to list"})");
  });
  const auto api = MakeApi({.server = server.url()});
  const auto list = List(*api, "/a", {}, Soon());
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().code, ErrorCode::kForbidden);
  EXPECT_TRUE(list.error().message.contains("no right to list")) << list.error().message;
}

// Three pages that take 25 s each, and how many of them ListEach gets.
struct PageCase {
  const char* name;
  seconds page_max;
  seconds whole_max;
  int pages;
};
class ListEachLimit : public ::testing::TestWithParam<PageCase> {};

TEST_P(ListEachLimit, OfAPageCountsAnewForEachPageAndTheCallersDeadlineStays) {
  FakeClock clock;
  SlowPages api(clock, 3);
  int items = 0;
  const auto version = ListEach(api,
                                "/a",
                                {.page_max = GetParam().page_max, .clock = &clock},
                                {.deadline = clock.Now() + GetParam().whole_max},
                                {.item = [&items](const nlohmann::json&) { ++items; }});
  EXPECT_EQ(items, GetParam().pages);
  EXPECT_EQ(version.has_value(), GetParam().pages == 3);
}
constexpr PageCase kPageCases[] = {
    {"EachInTime", seconds(60), seconds(1000), 3},
    {"TheFirstTooSlow", seconds(20), seconds(1000), 0},
    {"TheThirdAfterTheDeadline", seconds(60), seconds(60), 2},
};
INSTANTIATE_TEST_SUITE_P(Table, ListEachLimit, ::testing::ValuesIn(kPageCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(ListEach, TheWholeListInOneAnswerHasTheTimeOfTenPages) {
  for (const auto& [whole_takes, arrives] : {std::pair(seconds(300), true), {seconds(301), false}}) {
    FakeClock clock;
    SlowPages api(clock, 3);
    api.ForgetAfterTheFirstPage(whole_takes);
    const auto version =
        ListEach(api, "/a", {.page_max = seconds(30), .clock = &clock}, {}, {.item = [](const auto&) {}});
    EXPECT_EQ(version.has_value(), arrives) << whole_takes.count() << " s";
  }
}

}  // namespace
}  // namespace berth::k8sclient
