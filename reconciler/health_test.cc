// SPDX-License-Identifier: Apache-2.0
// Health: what the endpoints answer, also while others are slow.
#include "reconciler/health.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/http_probe.h"
#include "http/http_test_caller.h"

namespace berth::reconciler {
namespace {

using http::HttpTestCaller;

std::string AnswerTo(const std::string& path, int port) {
  const HttpTestCaller caller(port);
  caller.SendGet(path);
  const std::string answer = caller.Receive();
  const std::size_t body = answer.find("\r\n\r\n");
  return answer.size() < 12 || body == std::string::npos ? "none" : answer.substr(9, 4) + answer.substr(body + 4);
}

TEST(Health, SaysWhyTheControllerIsNotReady) {
  std::string why = "not listed yet";
  const auto server =
      ServeHealth({.address = "127.0.0.1:0"},
                  {.why_not_ready = [&] { return why; }, .metrics = [] { return std::string("m 1\n"); }});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  const int port = (*server)->tcp_port();
  EXPECT_EQ(AnswerTo("/healthz", port), "200 ok\n");
  EXPECT_EQ(AnswerTo("/readyz", port), "503 not listed yet\n");
  why.clear();
  EXPECT_EQ(AnswerTo("/readyz", port), "200 ok\n");
  EXPECT_EQ(AnswerTo("/metrics", port), "200 m 1\n");
  EXPECT_EQ(AnswerTo("/", port).substr(0, 3), "404");
}

TEST(Health, IsServedOverASocketIfThereIsNoPort) {
  std::string folder = std::filesystem::temp_directory_path() / "berth-health-test.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string socket = folder + "/s";
  {
    const auto server =
        ServeHealth({.socket = socket}, {.why_not_ready = [] { return std::string("not listed yet"); }});
    ASSERT_TRUE(server.has_value()) << server.error().message;
    EXPECT_EQ(http::Probe({.socket = socket}).value_or("failed"), "ok\n");
    EXPECT_EQ(http::Probe({.socket = socket, .asks_ready = true}).error().message, "not listed yet\n");
  }
  std::filesystem::remove_all(folder);
}

TEST(Health, IsServedWhileOtherCallersAreSlow) {
  const auto server = ServeHealth({.address = "127.0.0.1:0"}, {.why_not_ready = [] { return std::string(); }});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  std::vector<HttpTestCaller> slow;
  for (int i = 0; i < 100; ++i) {
    slow.emplace_back((*server)->tcp_port());
    slow.back().Send("GET /readyz HTT");
  }
  EXPECT_EQ(AnswerTo("/readyz", (*server)->tcp_port()), "200 ok\n");
}

TEST(Health, ASecondControllerTakesTheNextPortOfTheRange) {
  const auto sources = [](const char* name) {
    return HealthSources{.why_not_ready = [] { return std::string(); },
                         .metrics = [name] { return std::string(name); }};
  };
  // Takes a free port, at which the range begins.
  const auto probe = ServeHealth({.address = "127.0.0.1:0"}, sources("probe"));
  ASSERT_TRUE(probe.has_value()) << probe.error().message;
  const int taken = (*probe)->tcp_port();
  const std::string range = "127.0.0.1:" + std::to_string(taken) + "-" + std::to_string(std::min(taken + 20, 65535));
  const auto first = ServeHealth({.address = range}, sources("first"));
  const auto second = ServeHealth({.address = range}, sources("second"));
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(AnswerTo("/metrics", taken), "200 probe");
  EXPECT_EQ(AnswerTo("/metrics", (*first)->tcp_port()), "200 first");
  EXPECT_EQ(AnswerTo("/metrics", (*second)->tcp_port()), "200 second");
}

TEST(Health, RefusesAPortThatAnotherProcessUses) {
  const auto sources = [] { return HealthSources{.why_not_ready = [] { return std::string(); }}; };
  const auto first = ServeHealth({.address = "127.0.0.1:0"}, sources());
  ASSERT_TRUE(first.has_value()) << first.error().message;
  const auto second = ServeHealth({.address = "127.0.0.1:" + std::to_string((*first)->tcp_port())}, sources());
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, testing::HasSubstr("Address already in use"));
}

TEST(Health, NamesTheOptionThatIsWrong) {
  const auto server = ServeHealth({.address = "8080"}, {.why_not_ready = [] { return std::string(); }});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().message, "--health-address: address \"8080\" has no port; write it as 127.0.0.1:9745");
}

}  // namespace
}  // namespace berth::reconciler
