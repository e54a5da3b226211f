// SPDX-License-Identifier: Apache-2.0
// HttpApi's limits: deadlines, stop requests, the time to connect, and the silence of a watch.
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "k8sclient/testing/test_api.h"

namespace berth::k8sclient {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;
using testing::Soon;

const Request kLimitsRead{.path = "/a"};
const Request kLimitsWrite{.method = Method::kPost, .path = "/a", .body = "{}"};
constexpr char kStream[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Chunk(const std::string& text) {
  char size[20];
  std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return size + text + "\r\n";
}

// A server that sends single bytes for ever, so that its answer is never silent and never complete.
void Drip(Peer& peer) {
  if (!peer.ReadRequest()) return;
  peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
  for (int i = 0; i < 2000; ++i) {
    peer.Send("x");
    peer.Pause(milliseconds(5));
  }
}

TEST(Deadline, EndsACallWhoseAnswerDoesNotCome) {
  for (const Request& request : {kLimitsRead, kLimitsWrite}) {
    std::atomic<bool> is_seen = false;
    ScriptedServer server([&is_seen](Peer& peer) {
      if (!peer.ReadRequest()) return;
      is_seen = true;
      peer.AwaitClose();
    });
    const auto api = MakeApi({.server = server.url()});
    const ErrorCode want = IsWrite(request.method) ? ErrorCode::kUnknownOutcome : ErrorCode::kTimeout;
    // On a busy machine a short limit may pass before the client sends the write. Such a call ends with kTimeout.
    ErrorCode code{};
    for (milliseconds limit(100); code != want && !is_seen && limit < std::chrono::minutes(1); limit *= 2) {
      const auto began = steady_clock::now();
      const auto response = api->Call(request, CallOptions::Within(limit));
      EXPECT_GE(steady_clock::now() - began, limit);
      ASSERT_FALSE(response.has_value());
      code = response.error().code;
    }
    EXPECT_EQ(code, want);
  }
}

TEST(Deadline, CountsFromTheStartHoweverManyBytesCome) {
  ScriptedServer server(&Drip);
  const auto response = MakeApi({.server = server.url()})->Call(kLimitsRead, CallOptions::Within(milliseconds(100)));
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
}

TEST(Deadline, ThatHasPassedSendsNothing) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    while (peer.ReadRequest()) {
      ++seen;
      peer.Answer(200, "{}");
    }
  });
  const auto api = MakeApi({.server = server.url()});
  ASSERT_TRUE(api->Call(kLimitsRead, Soon()).has_value());
  const auto response = api->Call(kLimitsWrite, CallOptions::Within(milliseconds(0)));
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(seen, 1);
}

TEST(Deadline, WhileConnectingMeansThatNothingHappened) {
  // The server accepts the connection, and never answers the TLS handshake.
  ScriptedServer server([](Peer& peer) { peer.AwaitClose(); });
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
  const testing::Authority authority("CA");
  const auto api = MakeApi({.server = url, .certificate_authority = {.text = authority.certificate_pem()}});
  const auto response = api->Call(kLimitsWrite, CallOptions::Within(milliseconds(50)));
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
}

TEST(HandshakeTime, HasItsOwnLimit) {
  ScriptedServer server([](Peer& peer) { peer.AwaitClose(); });
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
  const testing::Authority authority("CA");
  const auto api = MakeApi({.server = url, .certificate_authority = {.text = authority.certificate_pem()}},
                           {.handshake_max = milliseconds(50)});
  const auto response = api->Call(kLimitsWrite, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
}

TEST(Stop, EndsACallThatWaits) {
  std::promise<void> asked;
  ScriptedServer server([&asked](Peer& peer) {
    if (!peer.ReadRequest()) return;
    asked.set_value();
    peer.AwaitClose();
  });
  const auto api = MakeApi({.server = server.url()});
  std::stop_source stop;
  const std::jthread stopper([&] {
    asked.get_future().wait();
    stop.request_stop();
  });
  const auto response = api->Call(kLimitsWrite, {.stop = stop.get_token()});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnknownOutcome);
}

TEST(Stop, ThatWasRequestedBeforeSendsNothing) {
  const std::stop_source stop;
  stop.request_stop();
  const auto api = MakeApi({.server = "http://127.0.0.1:" + std::to_string(testing::RefusingPort())});
  const auto response = api->Call(kLimitsWrite, {.stop = stop.get_token()});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
}

// Collects the lines of a watch, and ends the watch after `enough` lines.
struct LinesGot {
  std::vector<std::string> lines = {};
  std::size_t enough = SIZE_MAX;

  [[nodiscard]] WatchSink Sink() {
    return [this](std::string_view line) {
      lines.emplace_back(line);
      return lines.size() < enough;
    };
  }
};

TEST(Watch, GivesTheLinesHoweverChunksAndPacketsCutThem) {
  // Blank lines count for nothing, a line may end with CRLF, and the last line has no end.
  const std::string stream =
      "{\"type\":\"ADDED\"}\n\n{\"type\":\"MODIFIED\",\"object\":{\"a\":\"\xc3\xa4\"}}\r\n{}\nnot complete";
  for (std::size_t piece = 1; piece < stream.size(); ++piece) {
    ScriptedServer server([&](Peer& peer) {
      if (!peer.ReadRequest()) return;
      std::string answer = kStream;
      for (std::size_t at = 0; at < stream.size(); at += piece) answer += Chunk(stream.substr(at, piece));
      answer += "0\r\n\r\n";
      for (std::size_t at = 0; at < answer.size(); at += 7) peer.Send(std::string_view(answer).substr(at, 7));
      peer.AwaitClose();
    });
    LinesGot got;
    const auto response = MakeApi({.server = server.url()})->Watch(kLimitsRead, {}, got.Sink());
    ASSERT_TRUE(response.has_value()) << response.error().message;
    ASSERT_EQ(got.lines.size(), 3U);
    ASSERT_EQ(got.lines[1], "{\"type\":\"MODIFIED\",\"object\":{\"a\":\"\xc3\xa4\"}}");
  }
}

TEST(Watch, HandsOverEachLineAsItComes) {
  std::promise<void> first_taken;
  ScriptedServer server([&first_taken](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(kStream + Chunk("1\n"));
    first_taken.get_future().wait();
    peer.Send(Chunk("2\n") + "0\r\n\r\n");
    peer.AwaitClose();
  });
  int lines = 0;
  const auto response = MakeApi({.server = server.url()})->Watch(kLimitsRead, {}, [&](std::string_view) {
    if (++lines == 1) first_taken.set_value();
    return true;
  });
  EXPECT_TRUE(response.has_value());
  EXPECT_EQ(lines, 2);
}

TEST(Watch, IsDeadAfterSilenceBothBeforeAndAfterTheFirstByte) {
  for (const bool begun : {false, true}) {
    ScriptedServer server([begun](Peer& peer) {
      if (!peer.ReadRequest()) return;
      if (begun) peer.Send(kStream + Chunk("1\n"));
      peer.AwaitClose();
    });
    const auto api = MakeApi({.server = server.url()});
    LinesGot got;
    milliseconds idle_max(50);
    do {  // On a busy machine the first line may take longer than a short limit.
      idle_max *= 2;
      const auto response = api->Watch(kLimitsRead, {.idle_max = idle_max}, got.Sink());
      ASSERT_FALSE(response.has_value());
      EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
    } while (begun && got.lines.empty() && idle_max < std::chrono::minutes(1));
    EXPECT_EQ(got.lines.size(), begun ? 1U : 0U);
  }
}

TEST(Watch, LivesOnWhileBytesCome) {
  // A pause of a busy machine may be longer than a short limit, so the test repeats the watch with a longer one.
  std::atomic<milliseconds> idle_max(milliseconds(200));
  ScriptedServer server([&idle_max](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(kStream);
    for (int i = 0; i < 30; ++i) {
      peer.Send(Chunk("x\n"));
      peer.Pause(idle_max.load() / 20);
    }
    peer.Send("0\r\n\r\n");
    peer.AwaitClose();
  });
  const auto api = MakeApi({.server = server.url()});
  bool has_lived = false;
  for (; !has_lived && idle_max.load() < std::chrono::minutes(1); idle_max = idle_max.load() * 2) {
    LinesGot got;
    has_lived = api->Watch(kLimitsRead, {.idle_max = idle_max}, got.Sink()).has_value() && got.lines.size() == 30;
  }
  EXPECT_TRUE(has_lived) << "the watch lasts longer than silence may";
}

TEST(Watch, EndsWhenTheSinkHasEnough) {
  ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(kStream + Chunk("1\n2\n3\n"));
    peer.AwaitClose();
  });
  LinesGot got{.enough = 2};
  const auto response = MakeApi({.server = server.url()})->Watch(kLimitsRead, {}, got.Sink());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(got.lines.size(), 2U);
}

// The API server writes each < as six bytes, so a pod of 1.5 MiB in etcd may have 9 MiB in JSON.
TEST(Watch, TheLargestObjectThatEtcdKeepsArrives) {
  constexpr std::size_t kLargest = std::size_t{9} << 20;
  ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(kStream + Chunk(std::string(kLargest, 'x') + "\n"));
    peer.AwaitClose();
  });
  LinesGot got{.enough = 1};
  ASSERT_TRUE(MakeApi({.server = server.url()})->Watch(kLimitsRead, {}, got.Sink()).has_value());
  ASSERT_EQ(got.lines.size(), 1U);
  EXPECT_EQ(got.lines[0].size(), kLargest);
}

TEST(Watch, ALineThatIsTooLongOrWithoutEndIsRefused) {
  for (const char* const end : {"", "\n"}) {
    ScriptedServer server([end](Peer& peer) {
      if (!peer.ReadRequest()) return;
      peer.Send(kStream + Chunk(std::string(10'000, 'x') + "\n"));
      for (int i = 0; i < 10; ++i) peer.Send(Chunk(std::string(1000, 'x')));
      peer.Send(Chunk("x" + std::string(end)));
      peer.AwaitClose();
    });
    LinesGot got;
    const auto response = MakeApi({.server = server.url()})->Watch(kLimitsRead, {.line_bytes_max = 10'000}, got.Sink());
    ASSERT_FALSE(response.has_value());
    EXPECT_EQ(response.error().code, ErrorCode::kInternal);
    EXPECT_EQ(got.lines.size(), 1U) << "a line of 10,000 bytes is not too long";
  }
}

TEST(Watch, ARefusalComesBackWithItsBodyAndNoLine) {
  ScriptedServer server([](Peer& peer) {
    if (peer.ReadRequest()) peer.Answer(410, "{\"reason\":\n\"Expired\"}\n");
  });
  LinesGot got;
  const auto response = MakeApi({.server = server.url()})->Watch(kLimitsRead, {}, got.Sink());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 410);
  EXPECT_EQ(response->body, "{\"reason\":\n\"Expired\"}\n");
  EXPECT_TRUE(got.lines.empty());
}

TEST(Watch, ThatBreaksIsUnavailable) {
  ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(kStream + Chunk("1\n") + "5\r\n{\"t");
    peer.Reset();
  });
  LinesGot got;
  const auto response = MakeApi({.server = server.url()})->Watch(kLimitsRead, {}, got.Sink());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
}

TEST(Watch, StopEndsIt) {
  ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    peer.Send(kStream + Chunk("1\n"));
    peer.AwaitClose();
  });
  std::stop_source stop;
  const auto response =
      MakeApi({.server = server.url()})->Watch(kLimitsRead, {.stop = stop.get_token()}, [&stop](std::string_view) {
        stop.request_stop();
        return true;
      });
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
}

TEST(Watch, DoesNotHoldUpCalls) {
  ScriptedServer server([](Peer& peer) {
    while (const auto request = peer.ReadRequest()) {
      if (request->target == "/watch") {
        peer.Send(kStream + Chunk("1\n"));
      } else {
        peer.Answer(200, "{}");
      }
    }
  });
  const auto api = MakeApi({.server = server.url()});
  const auto response = api->Watch({.path = "/watch"}, {}, [&api](std::string_view) {
    EXPECT_TRUE(api->Call(kLimitsRead, Soon()).has_value());
    return false;
  });
  EXPECT_TRUE(response.has_value());
}

}  // namespace
}  // namespace berth::k8sclient
