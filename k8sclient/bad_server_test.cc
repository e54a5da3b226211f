// SPDX-License-Identifier: Apache-2.0
// HttpApi with servers that fail in many ways: which error the caller gets, and that HttpApi sends no write twice.
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "k8sclient/testing/test_api.h"

namespace berth::k8sclient {
namespace {

using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;
using testing::Soon;

const Request kBadRead{.path = "/a"};
const Request kBadWrite{.method = Method::kPatch, .path = "/a", .body = R"({"a":1})", .content_type = kMergePatch};

// One fault, which each connection of a read and of a write meets.
struct FaultCase {
  const char* name;
  void (*script)(Peer& peer);
  ErrorCode want_read;
  ErrorCode want_write;
  int want_read_requests;  // how often the server gets the read; it gets a write once
};
class Fault : public ::testing::TestWithParam<FaultCase> {};

void AfterARequest(Peer& peer, const std::string& bytes) {
  if (!peer.ReadRequest()) return;
  peer.Send(bytes);
}

const FaultCase kFaultCases[] = {
    {"ResetAfterTheRequest",
     [](Peer& peer) {
       if (peer.ReadRequest()) peer.Reset();
     },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"ClosedAfterTheRequest",
     [](Peer& peer) { AfterARequest(peer, ""); },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"HalfAStatusLine",
     [](Peer& peer) { AfterARequest(peer, "HTTP/1.1 20"); },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"HalfTheHeaders",
     [](Peer& peer) { AfterARequest(peer, "HTTP/1.1 200 OK\r\nContent-Len"); },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"HalfABody",
     [](Peer& peer) { AfterARequest(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a\":"); },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"HalfAChunk",
     [](Peer& peer) { AfterARequest(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"a\":"); },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"HalfARefusal",
     [](Peer& peer) { AfterARequest(peer, "HTTP/1.1 409 Conflict\r\nContent-Length: 10\r\n\r\n{\"a\":"); },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"HalfABodyThenTheLineIsCut",
     [](Peer& peer) {
       AfterARequest(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a\":");
       peer.Cut();
     },
     ErrorCode::kUnavailable,
     ErrorCode::kUnknownOutcome,
     2},
    {"NotHttp",
     [](Peer& peer) { AfterARequest(peer, "SSH-2.0-OpenSSH_9.2\r\n"); },
     ErrorCode::kInternal,
     ErrorCode::kUnknownOutcome,
     1},
    {"TwoLengths",
     [](Peer& peer) { AfterARequest(peer, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"); },
     ErrorCode::kInternal,
     ErrorCode::kUnknownOutcome,
     1},
    {"ABodyThatIsTooLarge",
     [](Peer& peer) {
       AfterARequest(peer, testing::HttpAnswer(200, std::string(kObjectBytesMax + 1, 'x')));
       peer.AwaitClose();
     },
     ErrorCode::kInternal,
     ErrorCode::kUnknownOutcome,
     1},
    {"ABodyWithoutEnd",
     [](Peer& peer) {
       AfterARequest(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
       const std::string chunk = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
       for (std::size_t i = 0; i <= kObjectBytesMax / 0x10000; ++i) peer.Send(chunk);
       peer.AwaitClose();
     },
     ErrorCode::kInternal,
     ErrorCode::kUnknownOutcome,
     1},
    {"ARefusalWithoutEnd",
     [](Peer& peer) {
       AfterARequest(peer, "HTTP/1.1 500 x\r\n\r\n");
       for (int i = 0; i < 200; ++i) peer.Send(std::string(0x10000, 'x'));
       peer.AwaitClose();
     },
     ErrorCode::kInternal,
     ErrorCode::kUnknownOutcome,
     1},
    {"AHeadWithoutEnd",
     [](Peer& peer) {
       AfterARequest(peer, "HTTP/1.1 200 OK\r\n");
       for (int i = 0; i < 10'000; ++i) peer.Send("X-Header: " + std::string(100, 'x') + "\r\n");
       peer.AwaitClose();
     },
     ErrorCode::kInternal,
     ErrorCode::kUnknownOutcome,
     1},
};

TEST_P(Fault, GivesItsErrorAndNoWriteIsSentTwice) {
  const FaultCase& c = GetParam();
  for (const bool tls : {false, true}) {
    for (const Request& request : {kBadRead, kBadWrite}) {
      const bool write = IsWrite(request.method);
      const testing::Authority authority("CA");
      std::atomic<int> seen = 0;
      ScriptedServer::Options options;
      if (tls) options.tls = authority.Issue({});
      ScriptedServer server(std::move(options), [&](Peer& peer) {
        ++seen;
        c.script(peer);
      });
      const auto api =
          MakeApi({.server = server.url(), .certificate_authority = {.text = authority.certificate_pem()}});
      const auto response = api->Call(request, Soon());
      ASSERT_FALSE(response.has_value()) << response->status << " " << response->body.size();
      EXPECT_EQ(ToString(response.error().code), ToString(write ? c.want_write : c.want_read))
          << response.error().message << (tls ? " tls" : " plain");
      EXPECT_EQ(seen, write ? 1 : c.want_read_requests) << (tls ? "tls" : "plain");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Fault, ::testing::ValuesIn(kFaultCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(BadServer, UnderTlsABodyWithoutALengthThatIsCutIsNotTakenForWhole) {
  const testing::Authority authority("CA");
  ScriptedServer server({.tls = authority.Issue({})}, [](Peer& peer) {
    AfterARequest(peer, "HTTP/1.1 200 OK\r\n\r\n{\"items\":[]}");
    peer.Cut();
  });
  const auto api = MakeApi({.server = server.url(), .certificate_authority = {.text = authority.certificate_pem()}});
  EXPECT_FALSE(api->Call(kBadRead, Soon()).has_value());
}

TEST(BadServer, AReadSucceedsAfterOneBrokenConnection) {
  ScriptedServer server([](Peer& peer) {
    if (!peer.ReadRequest()) return;
    if (peer.index() == 0) {
      peer.Reset();
    } else {
      peer.Answer(200, "{}");
    }
  });
  const auto response = MakeApi({.server = server.url()})->Call(kBadRead, Soon());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->status, 200);
}

TEST(BadServer, TheClientSendsNothingToAServerToWhichAnAnswerRedirectsIt) {
  std::atomic<int> elsewhere = 0;
  ScriptedServer other([&](Peer& peer) {
    ++elsewhere;
    if (peer.ReadRequest()) peer.Answer(200, "{}");
  });
  ScriptedServer server([&](Peer& peer) {
    AfterARequest(peer, "HTTP/1.1 307 x\r\nContent-Length: 0\r\nLocation: " + other.url() + "/a\r\n\r\n");
  });
  for (const Request& request : {kBadRead, kBadWrite}) {
    const auto response = MakeApi({.server = server.url()})->Call(request, Soon());
    ASSERT_TRUE(response.has_value()) << response.error().message;
    EXPECT_EQ(response->status, 307);
  }
  EXPECT_EQ(elsewhere, 0);
}

TEST(BadServer, ARefusedConnectionMeansThatNothingHappened) {
  const auto api = MakeApi({.server = "http://127.0.0.1:" + std::to_string(testing::RefusingPort())});
  for (const Request& request : {kBadRead, kBadWrite}) {
    const auto response = api->Call(request, Soon());
    ASSERT_FALSE(response.has_value());
    EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(response.error().message.find("Connection refused"), std::string::npos) << response.error().message;
    EXPECT_NE(response.error().details, "");
  }
}

TEST(BadServer, ANameThatDoesNotExistMeansThatNothingHappened) {
  const auto response = MakeApi({.server = "http://no-such-host.invalid"})->Call(kBadWrite, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(response.error().message.find("no-such-host.invalid"), std::string::npos);
}

// A server that closes its connection after one answer, at a moment that the test chooses.
enum class CloseWhen : std::uint8_t { kAfterTheAnswer, kAtTheNextRequest };

class StaleConnection {
 public:
  explicit StaleConnection(CloseWhen when)
      : server_([this, when](Peer& peer) {
          if (!peer.ReadRequest()) return;
          ++seen_;
          peer.Answer(200, "{}");
          if (peer.index() > 0) {
            peer.AwaitClose();
          } else if (when == CloseWhen::kAtTheNextRequest && peer.ReadRequest()) {
            ++seen_;
          }
        }) {}
  ScriptedServer& server() { return server_; }
  [[nodiscard]] int seen() const { return seen_; }

 private:
  std::atomic<int> seen_ = 0;
  ScriptedServer server_;
};

TEST(StaleConnection, ThatIsSeenToBeClosedIsReplacedAlsoForAWrite) {
  StaleConnection stale(CloseWhen::kAfterTheAnswer);
  const auto api = MakeApi({.server = stale.server().url()});
  ASSERT_TRUE(api->Call(kBadRead, Soon()).has_value());
  stale.server().AwaitEnd(0);
  const auto response = api->Call(kBadWrite, Soon());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(stale.server().connections(), 2);
}

TEST(StaleConnection, ThatClosesWhenAWriteArrivesLeavesTheWriteInDoubtAndUnrepeated) {
  StaleConnection stale(CloseWhen::kAtTheNextRequest);
  const auto api = MakeApi({.server = stale.server().url()});
  ASSERT_TRUE(api->Call(kBadRead, Soon()).has_value());
  const auto response = api->Call(kBadWrite, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(stale.seen(), 2);
}

TEST(StaleConnection, ThatIsClosedWhenAReadArrivesIsReplacedUnnoticed) {
  StaleConnection stale(CloseWhen::kAtTheNextRequest);
  const auto api = MakeApi({.server = stale.server().url()});
  ASSERT_TRUE(api->Call(kBadRead, Soon()).has_value());
  EXPECT_TRUE(api->Call(kBadRead, Soon()).has_value());
  EXPECT_EQ(stale.server().connections(), 2);
}

TEST(StaleConnection, IsNotKeptAfterUnrequestedBytes) {
  ScriptedServer server([](Peer& peer) {
    while (peer.ReadRequest()) {
      // HttpApi must not take the second answer as the answer to the next request.
      peer.Send(testing::HttpAnswer(200, "{}") + testing::HttpAnswer(200, "{\"forged\":1}"));
    }
  });
  const auto api = MakeApi({.server = server.url()});
  for (int i = 0; i < 3; ++i) {
    const auto response = api->Call(kBadRead, Soon());
    ASSERT_TRUE(response.has_value()) << response.error().message;
    EXPECT_EQ(response->body, "{}");
  }
  EXPECT_EQ(server.connections(), 3);
}

TEST(BadServer, AnEarlyRefusalOfALargeWriteDoesNotEndTheProcess) {
  Request large = kBadWrite;
  large.body = std::string(std::size_t{8} << 20, 'x');
  ScriptedServer server([](Peer& peer) {
    (void)peer.ReadBytes(100);
    peer.Answer(413, "too large", "Connection: close\r\n");
    peer.Cut();
  });
  const auto response = MakeApi({.server = server.url()})->Call(large, Soon());
  // The kernel may discard the answer together with the connection.
  if (response) {
    EXPECT_EQ(response->status, 413);
  } else {
    EXPECT_EQ(response.error().code, ErrorCode::kUnknownOutcome) << response.error().message;
  }
}

TEST(BadServer, AWriteThatArrivedInPartIsInDoubtAndNotSentAgain) {
  Request large = kBadWrite;
  large.body = std::string(std::size_t{8} << 20, 'x');
  ScriptedServer server([](Peer& peer) {
    (void)peer.ReadBytes(100);
    peer.Reset();
  });
  const auto response = MakeApi({.server = server.url()})->Call(large, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(server.connections(), 1);
}

// The point at which the server ends a connection. The server chooses one at random for each request.
enum class EndAt : std::uint8_t {
  kAtOnce,
  kWithinTheRequest,
  kAfterTheRequest,
  kWithinTheAnswer,
  kAfterTheAnswer,
  kResetAfterTheAnswer,
  kNever,
};
constexpr unsigned kEndings = 7;

// The requests that a server got, and the requests that it answered.
struct Seen {
  std::mutex mutex;
  std::map<std::string, int> times;  // by path
  std::set<std::string> answered;
};

void ServeAndEnd(Peer& peer, std::minstd_rand& random, Seen& seen) {
  for (;;) {
    const auto end = [&] {
      const std::lock_guard lock(seen.mutex);
      return static_cast<EndAt>(random() % kEndings);
    }();
    if (end == EndAt::kAtOnce) return;
    if (end == EndAt::kWithinTheRequest) {
      const std::string begun = peer.ReadBytes(20);
      const std::lock_guard lock(seen.mutex);
      if (begun.size() == 20) ++seen.times[begun.substr(begun.find(' ') + 1, begun.rfind(' ') - begun.find(' ') - 1)];
      return;
    }
    const auto request = peer.ReadRequest();
    if (!request) return;
    {
      const std::lock_guard lock(seen.mutex);
      ++seen.times[request->target];
      if (end >= EndAt::kAfterTheAnswer) seen.answered.insert(request->target);
    }
    if (end == EndAt::kAfterTheRequest) return;
    if (end == EndAt::kWithinTheAnswer) return peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{");
    peer.Answer(200, "{}");
    if (end == EndAt::kResetAfterTheAnswer) return peer.Reset();
    if (end == EndAt::kAfterTheAnswer) return;
  }
}

TEST(BadServer, ThatClosesAtEveryPointNeverSeesAWriteTwice) {
  Seen seen;
  std::minstd_rand random(1);  // NOLINT(bugprone-random-generator-seed): the same order each time
  ScriptedServer server([&](Peer& peer) { ServeAndEnd(peer, random, seen); });
  const auto api = MakeApi({.server = server.url()});
  constexpr int kRequests = 10'000;
  int answered = 0;
  for (int i = 0; i < kRequests; ++i) {
    Request write = kBadWrite;
    write.path = "/write/" + std::to_string(10'000 + i);
    const auto response = api->Call(write, Soon());
    const std::lock_guard lock(seen.mutex);
    ASSERT_LE(seen.times[write.path], 1) << "request " << i;
    if (response) {
      ++answered;
      ASSERT_TRUE(seen.answered.contains(write.path)) << "request " << i;
    } else if (response.error().code == ErrorCode::kUnavailable) {
      ASSERT_EQ(seen.times[write.path], 0) << "request " << i << ": " << response.error().message;
    } else {
      ASSERT_EQ(ToString(response.error().code), ToString(ErrorCode::kUnknownOutcome)) << response.error().message;
    }
  }
  EXPECT_GT(answered, kRequests / 10);
}

}  // namespace
}  // namespace berth::k8sclient
