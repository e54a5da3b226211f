// SPDX-License-Identifier: Apache-2.0
// HttpApi's kept connections: what a new connection must prove again, and what happens if a kept connection is dead.
#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "k8sclient/connection.h"
#include "k8sclient/testing/test_api.h"

namespace berth::k8sclient {
namespace {

using std::chrono::milliseconds;
using testing::Authority;
using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;
using testing::Soon;

const Request kKeptRead{.path = "/a"};
const Request kKeptWrite{.method = Method::kPatch, .path = "/a", .body = R"({"a":1})", .content_type = kMergePatch};

TEST(NewConnection, MakesAWholeHandshakeAgain) {
  const Authority authority("CA");
  std::atomic<int> resumed = 0;
  ScriptedServer server({.tls = authority.Issue({}), .fails_resumption = true}, [&resumed](Peer& peer) {
    const auto request = peer.ReadRequest();
    if (!request) return;
    if (request->tls_resumed) ++resumed;
    peer.Answer(200, "{}");
  });
  const auto api = MakeApi({.server = server.url(), .certificate_authority = {.text = authority.certificate_pem()}});
  for (int i = 0; i < 3; ++i) {
    const auto response = api->Call(kKeptRead, Soon());
    ASSERT_TRUE(response.has_value()) << response.error().message;
    server.AwaitEnd(i);
  }
  EXPECT_EQ(resumed, 0) << "whoever resumes a session does not prove anew who he is";
}

TEST(KeptConnection, IsGivenUpIfTlsHoldsMoreThanTheAnswer) {
  const Authority authority("CA");
  ScriptedServer server({.tls = authority.Issue({})}, [](Peer& peer) {
    while (peer.ReadRequest()) {
      const std::string answer = testing::HttpAnswer(200, "{}");
      const std::size_t head = answer.size() - 2;
      peer.Send(answer.substr(0, head));
      // One TLS record: HttpApi reads only the answer's length, and poll on the socket does not see the rest.
      peer.Send(answer.substr(head) + testing::HttpAnswer(200, R"({"forged":1})"));
    }
  });
  const auto api = MakeApi({.server = server.url(), .certificate_authority = {.text = authority.certificate_pem()}});
  for (int i = 0; i < 3; ++i) {
    const auto response = api->Call(kKeptWrite, Soon());
    ASSERT_TRUE(response.has_value()) << response.error().message;
    EXPECT_EQ(response->body, "{}");
  }
}

// The first connection that works serves one answer and dies at the next request. The server accepts all later
// connections, but sends nothing on them.
class DeadConnection : public ::testing::TestWithParam<bool> {
 protected:
  void LetFirstDie() {
    // A busy machine may exceed the time limit of a handshake.
    const CallOptions options = Soon();
    auto first = api_->Call(kKeptRead, options);
    while (!first && std::chrono::steady_clock::now() < options.deadline) first = api_->Call(kKeptRead, options);
    ASSERT_TRUE(first.has_value()) << first.error().message;
    has_served_ = true;
  }
  const Request& request_ = GetParam() ? kKeptWrite : kKeptRead;
  const Authority authority_{"CA"};
  std::atomic<bool> has_served_ = false;
  std::atomic<int> seen_ = 0;  // requests after the first
  ScriptedServer behind_{{.tls = authority_.Issue({})}, [this](Peer& peer) {
                           if (peer.ReadRequest()) peer.Answer(200, "{}");
                           if (peer.ReadRequest()) ++seen_;
                         }};
  ScriptedServer server_{[this](Peer& peer) {
    if (!has_served_) return peer.Relay(behind_.port());
    peer.AwaitClose();
  }};
  std::unique_ptr<Api> api_ = MakeApi({.server = "https://127.0.0.1:" + std::to_string(server_.port()),
                                       .certificate_authority = {.text = authority_.certificate_pem()}},
                                      {.connect_max = milliseconds(300), .handshake_max = milliseconds(300)});
};

TEST_P(DeadConnection, DoesNotSwitchOffTheTimeLimitsOfTheNextConnection) {
  LetFirstDie();
  const auto response = api_->Call(request_, {});  // no deadline
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(ToString(response.error().code),
            ToString(GetParam() ? ErrorCode::kUnknownOutcome : ErrorCode::kUnavailable))
      << response.error().message;
  EXPECT_EQ(seen_, 1);
}
INSTANTIATE_TEST_SUITE_P(All, DeadConnection, ::testing::Bool(),
                         [](const auto& is_write) { return is_write.param ? "Write" : "Read"; });

TEST(DeadConnections, AReadIsSentOnceMore) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    if (peer.index() == 0 && peer.ReadRequest()) peer.Answer(200, "{}");
    if (peer.ReadRequest()) ++seen;
  });
  const auto api = MakeApi({.server = server.url()});
  ASSERT_TRUE(api->Call(kKeptRead, Soon()).has_value());
  const auto response = api->Call(kKeptRead, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(seen, 2);
}

// After the server's machine has died, no kept connection gets an answer or a RST.
TEST(SilentConnections, AreAllGivenUpAfterTheFirstIsFound) {
  constexpr int kKept = 3;
  std::latch all_open(kKept);
  ScriptedServer server([&](Peer& peer) {
    if (!peer.ReadRequest()) return;
    if (peer.index() < kKept) all_open.arrive_and_wait();
    peer.Answer(200, "{}");
    if (peer.ReadRequest()) peer.AwaitClose();
  });
  const auto api = MakeApi({.server = server.url()});
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kKept; ++i) {
      callers.emplace_back([&api] { EXPECT_TRUE(api->Call(kKeptRead, Soon()).has_value()); });
    }
  }
  EXPECT_FALSE(api->Call(kKeptRead, CallOptions::Within(2 * kSilentFrom)).has_value());
  const auto response = api->Call(kKeptRead, Soon());
  EXPECT_TRUE(response.has_value()) << response.error().message;
}

TEST(Header, WithoutAValueIsSentAsWell) {
  std::map<std::string, std::string> headers;
  ScriptedServer server([&headers](Peer& peer) {
    while (const auto request = peer.ReadRequest()) {
      headers = request->headers;
      peer.Answer(200, "{}");
    }
  });
  const auto api = MakeApi({.server = server.url(),
                            .impersonate_user = "u",
                            .impersonate_groups = {""},
                            .impersonate_extra = {{"k", {""}}}});
  ASSERT_TRUE(api->Call(kKeptRead, Soon()).has_value());
  EXPECT_TRUE(headers.contains("impersonate-group"));
  EXPECT_TRUE(headers.contains("impersonate-extra-k"));
}

// An answer's head, and whether it says validly where the answer ends.
struct LengthCase {
  const char* name;
  std::string head;  // after "HTTP/1.1 "
  bool is_whole;
};
class AnswersLength : public ::testing::TestWithParam<LengthCase> {};

TEST_P(AnswersLength, MustBeValidForACompleteAnswer) {
  const Authority authority("CA");
  for (const bool tls : {false, true}) {
    ScriptedServer::Options options;
    if (tls) options.tls = authority.Issue({});
    ScriptedServer server(std::move(options), [](Peer& peer) {
      if (!peer.ReadRequest()) return;
      peer.Send("HTTP/1.1 " + GetParam().head + "\r\n\r\n");
      if (!GetParam().is_whole) peer.Send("{\"a\":");
      peer.Cut();
    });
    const auto api = MakeApi({.server = server.url(), .certificate_authority = {.text = authority.certificate_pem()}});
    const auto response = api->Call(kKeptWrite, Soon());
    EXPECT_EQ(response.has_value(), GetParam().is_whole) << (tls ? "tls" : "plain");
    if (!response) {
      EXPECT_EQ(response.error().code, ErrorCode::kUnknownOutcome);
    }
  }
}

const LengthCase kLengthCases[] = {
    {"NoContent", "204 No Content", true},
    {"NotModified", "304 Not Modified", true},
    {"None", "200 OK", false},
    {"Identity", "200 OK\r\nTransfer-Encoding: identity", false},
    {"IdentityAndLength", "200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: identity", false},
    {"Compressed", "200 OK\r\nTransfer-Encoding: gzip", false},
    {"TooLargeANumber", "200 OK\r\nContent-Length: 99999999999999999999", false},
    {"TwoNumbers", "200 OK\r\nContent-Length: 12, 5", false},
};
INSTANTIATE_TEST_SUITE_P(Table, AnswersLength, ::testing::ValuesIn(kLengthCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
