// SPDX-License-Identifier: Apache-2.0
// HttpApi with a server that answers well: which bytes HttpApi sends, and how it keeps connections.
#include "k8sclient/http_api.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/test_api.h"

namespace berth::k8sclient {
namespace {

using std::chrono::seconds;
using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;
using testing::Soon;

// Answers each request with 200 and the request's method, target, relevant headers and body.
void Echo(Peer& peer) {
  while (const auto request = peer.ReadRequest()) {
    std::string text = request->method + " " + request->target + "\n";
    for (const char* name : {"accept", "content-type", "authorization", "user-agent", "impersonate-user", "host"}) {
      const auto header = request->headers.find(name);
      if (header != request->headers.end()) text += std::string(name) + ": " + header->second + "\n";
    }
    peer.Answer(200, text + request->body);
  }
}

TEST(HttpApi, SendsMethodQueryHeadersAndBody) {
  ScriptedServer server(&Echo);
  const auto api = MakeApi({.server = server.url()});
  const auto response = api->Call({.method = Method::kPatch,
                                   .path = "/apis/x/y",
                                   .query = {{"fieldManager", "berth"}, {"fieldSelector", "spec.node=a b"}},
                                   .body = "{\"a\":1}",
                                   .content_type = kMergePatch,
                                   .accept = kPartialMetadata},
                                  Soon());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->body,
            "PATCH /apis/x/y?fieldManager=berth&fieldSelector=spec.node%3Da%20b\n"
            "accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\n"
            "content-type: application/merge-patch+json\n"
            "user-agent: berth\n"
            "host: 127.0.0.1:" +
                std::to_string(server.port()) + "\n{\"a\":1}");
}

TEST(HttpApi, KeepsOneConnectionForCallsOneAfterTheOther) {
  ScriptedServer server(&Echo);
  const auto api = MakeApi({.server = server.url()});
  for (const Method method : {Method::kGet, Method::kPost, Method::kPatch, Method::kDelete}) {
    const auto response = api->Call({.method = method, .path = "/a", .body = "{}"}, Soon());
    ASSERT_TRUE(response.has_value()) << response.error().message;
    EXPECT_TRUE(response->body.starts_with(ToString(method)));
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpApi, SpeaksTlsWithAClientCertificate) {
  const testing::Authority authority("server CA");
  const testing::Authority clients("client CA");
  const testing::Identity client = clients.Issue({.common_name = "system:node:n1"});
  std::string seen;
  ScriptedServer server({.tls = authority.Issue({}), .client_authority_pem = clients.certificate_pem()},
                        [&seen](Peer& peer) {
                          while (const auto request = peer.ReadRequest()) {
                            seen = request->peer_common_name;
                            peer.Answer(200, "{}");
                          }
                        });
  const auto api = MakeApi({.server = server.url(),
                            .certificate_authority = {.text = authority.certificate_pem()},
                            .client_certificate = {.text = client.certificate_pem},
                            .client_key = {.text = client.key_pem}});
  const auto response = api->Call({.path = "/a"}, Soon());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(seen, "system:node:n1");
}

TEST(HttpApi, ManyThreadsShareIt) {
  ScriptedServer server(&Echo);
  const auto api = MakeApi({.server = server.url()});
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int call = 0; call < 25; ++call) {
          const std::string path = "/" + std::to_string(thread) + "/" + std::to_string(call);
          const auto response = api->Call({.path = path}, Soon());
          if (response && response->body.starts_with("GET " + path + "\n")) ++good;
        }
      });
    }
  }
  EXPECT_EQ(good, 200);
  EXPECT_LE(server.connections(), 8);
}

TEST(HttpApi, ABaseUrlWithAPathIsPutBeforeEachRequest) {
  ScriptedServer server(&Echo);
  const auto response = MakeApi({.server = server.url() + "/k8s/c-1"})->Call({.path = "/a"}, Soon());
  ASSERT_TRUE(response.has_value());
  EXPECT_TRUE(response->body.starts_with("GET /k8s/c-1/a\n"));
}

// Path and ObjectPath encode all such characters.
TEST(HttpApiDeathTest, APathWithForeignCharactersIsABug) {
  const auto api = MakeApi({.server = "http://127.0.0.1:1"});
  for (const char* path : {"a", "", "/a b", "/a?b", "/a#b", "/a\r\nX: y", "/\xc3\xa4"}) {
    EXPECT_DEATH(static_cast<void>(api->Call({.path = path}, Soon())), "IsPath") << path;
  }
}

TEST(HttpApi, AServerThatIsNoUrlIsRefusedAtOnce) {
  for (const char* server : {"", "10.0.0.1:6443", "socks5://a", "https://a:b"}) {
    const auto api = MakeHttpApi({.source = "config", .server = server});
    ASSERT_FALSE(api.has_value()) << server;
    EXPECT_EQ(api.error().code, ErrorCode::kDecode);
  }
}

// HttpApi waits with a fake clock when the server sends Retry-After.
class Repeats : public ::testing::Test {
 protected:
  std::unique_ptr<k8sclient::Api> Api(const ScriptedServer& server) {
    return MakeApi({.server = server.url()}, {.clock = &clock_});
  }
  testing::FakeClock clock_;
};

TEST_F(Repeats, ARefusedWriteComesAgainWhenTheServerSaid) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    while (peer.ReadRequest()) {
      const int count = ++seen;
      peer.Answer(count == 1 ? 429 : count == 2 ? 503 : 200, "{}", count < 3 ? "Retry-After: 2\r\n" : "");
    }
  });
  const auto response = Api(server)->Call({.method = Method::kPatch, .path = "/a", .body = "{}"}, Soon());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(clock_.slept(), (std::vector<std::chrono::milliseconds>{seconds(2), seconds(2)}));
}

TEST_F(Repeats, AtOnceIfTheServerSaysSo) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    while (peer.ReadRequest()) peer.Answer(++seen == 1 ? 503 : 200, "{}", "Retry-After: 0\r\n");
  });
  const auto response = Api(server)->Call({.method = Method::kPatch, .path = "/a", .body = "{}"}, Soon());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
}

TEST_F(Repeats, EndAfterTenTimes) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    while (peer.ReadRequest()) {
      ++seen;
      peer.Answer(429, "{}", "Retry-After: 1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }
  });
  const auto response = Api(server)->Call({.path = "/a"}, {});
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->retry_after, seconds(1));
  EXPECT_EQ(response->date, std::chrono::sys_seconds(seconds(784'111'777)));
  EXPECT_EQ(seen, 11);
}

TEST_F(Repeats, AreNotBegunWhenTheDeadlineWouldPass) {
  ScriptedServer server([](Peer& peer) {
    while (peer.ReadRequest()) peer.Answer(429, "{}", "Retry-After: 60\r\n");
  });
  const auto response = Api(server)->Call({.path = "/a"}, Soon());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 429);
  EXPECT_TRUE(clock_.slept().empty());
}

TEST_F(Repeats, AWriteThatFailedInsideTheServerDoesNotComeAgain) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    while (peer.ReadRequest()) {
      ++seen;
      peer.Answer(500, "{}", "Retry-After: 1\r\n");
    }
  });
  const auto response = Api(server)->Call({.method = Method::kPost, .path = "/a", .body = "{}"}, Soon());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 500);
  EXPECT_EQ(seen, 1);
}

TEST_F(Repeats, ARejectedTokenIsReadAgainAndTheRequestSentOnceMore) {
  std::atomic<int> seen = 0;
  ScriptedServer server([&seen](Peer& peer) {
    while (const auto request = peer.ReadRequest()) {
      ++seen;
      peer.Answer(request->headers.at("authorization") == "Bearer new" ? 200 : 401, "{}");
    }
  });
  std::string token = "old";
  const auto read = [&token](const std::string&) -> Expected<std::string> { return token; };
  const auto api = MakeApi({.server = server.url(), .token = {.path = "/t"}}, {.clock = &clock_, .read_file = read});
  const Request write{.method = Method::kPatch, .path = "/a", .body = "{}"};
  EXPECT_EQ(api->Call(write, Soon())->status, 401);
  EXPECT_EQ(seen, 1) << "the same token again would be refused again";
  token = "new";
  EXPECT_EQ(api->Call(write, Soon())->status, 200);
  EXPECT_EQ(seen, 3);
}

TEST_F(Repeats, AWatchWithARejectedTokenIsSentOnceMore) {
  ScriptedServer server([](Peer& peer) {
    while (const auto request = peer.ReadRequest()) {
      peer.Answer(request->headers.at("authorization") == "Bearer new" ? 200 : 401, "{\"type\":\"x\"}\n");
    }
  });
  int reads = 0;
  const auto read = [&reads](const std::string&) -> Expected<std::string> { return ++reads == 1 ? "old" : "new"; };
  const auto api = MakeApi({.server = server.url(), .token = {.path = "/t"}}, {.clock = &clock_, .read_file = read});
  int lines = 0;
  const auto response = api->Watch({.path = "/a"}, {}, [&lines](std::string_view) { return ++lines > 0; });
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace berth::k8sclient
