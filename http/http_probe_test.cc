// SPDX-License-Identifier: Apache-2.0
// Probe: which result it returns for a server in each state.
#include "http/http_probe.h"

#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/http_server.h"

namespace berth::http {
namespace {

using testing::HasSubstr;

class ProbeTest : public testing::Test {
 protected:
  ProbeTest() { std::filesystem::create_directories(folder_); }
  ~ProbeTest() override { std::filesystem::remove_all(folder_); }

  // Starts a server that is healthy and not ready.
  std::unique_ptr<HttpServer> StartServer() {
    return *HttpServer::Make({.socket_path = socket_, .socket_limits = {.workers = 2}},
                             {.answer =
                                  [](const HttpRequest& request) {
                                    if (request.path == "/healthz") return HttpAnswer{.body = "ok\n"};
                                    return HttpAnswer{.status = request.path == "/readyz" ? 503 : 404,
                                                      .body = "no blocks yet\n"};
                                  },
                              .overload = [] { return HttpAnswer{.status = 503}; },
                              .is_urgent = {}});
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("berth-probe-test." + std::to_string(getpid()));
  std::string socket_ = folder_ / "s";
};

TEST_F(ProbeTest, TellsAHealthyProgramFromAReadyOne) {
  const auto server = StartServer();
  EXPECT_EQ(Probe({.socket = socket_}).value_or("failed"), "ok\n");
  const auto ready = Probe({.socket = socket_, .asks_ready = true});
  ASSERT_FALSE(ready.has_value());
  EXPECT_EQ(ready.error().code, ErrorCode::kNotReady);
  EXPECT_EQ(ready.error().message, "no blocks yet\n");
}

TEST_F(ProbeTest, FailsIfNoProgramListens) {
  EXPECT_EQ(Probe({.socket = socket_}).error().code, ErrorCode::kUnavailable);
  StartServer().reset();
  EXPECT_EQ(Probe({.socket = socket_}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Probe({.socket = std::string(200, 'x')}).error().code, ErrorCode::kInvalid);
}

TEST_F(ProbeTest, FailsInTimeIfTooManyCallersWait) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, socket_.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  const int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(first, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const auto outcome = Probe({.socket = socket_, .wait_max = std::chrono::milliseconds(20)});
  close(first);
  close(listener);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
}

TEST_F(ProbeTest, FailsInTimeIfTheProgramDoesNotAnswer) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, socket_.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const auto outcome = Probe({.socket = socket_, .wait_max = std::chrono::milliseconds(20)});
  close(listener);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(outcome.error().message, HasSubstr(socket_));
}

}  // namespace
}  // namespace berth::http
