// SPDX-License-Identifier: Apache-2.0
// Health: what the endpoints answer, also while others are slow.
#include "reconciler/health.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

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

TEST(Health, SaysWhyItIsNotReady) {
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

TEST(Health, IsToldOverASocketWhereNoPortIsTaken) {
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

TEST(Health, IsAnsweredWhileOthersAreSlow) {
  const auto server = ServeHealth({.address = "127.0.0.1:0"}, {.why_not_ready = [] { return std::string(); }});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  std::vector<HttpTestCaller> slow;
  for (int i = 0; i < 100; ++i) {
    slow.emplace_back((*server)->tcp_port());
    slow.back().Send("GET /readyz HTT");
  }
  EXPECT_EQ(AnswerTo("/readyz", (*server)->tcp_port()), "200 ok\n");
}

TEST(Health, NamesTheOptionThatIsWrong) {
  const auto server = ServeHealth({.address = "8080"}, {.why_not_ready = [] { return std::string(); }});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().message, "--health-address: address \"8080\" has no port; write it as 127.0.0.1:9745");
}

}  // namespace
}  // namespace berth::reconciler
