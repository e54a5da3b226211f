// SPDX-License-Identifier: Apache-2.0
// FaultProxy: every fault, with a scripted HTTPS server that requests a client certificate.
#include "e2e/fault_proxy.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "k8sclient/http_api.h"
#include "k8sclient/testing/scripted_server.h"

namespace berth::e2e {
namespace {

using k8sclient::CallOptions;
using k8sclient::Method;
using k8sclient::testing::Authority;
using k8sclient::testing::Identity;
using k8sclient::testing::Peer;
using k8sclient::testing::ScriptedServer;
using std::chrono::seconds;

class FaultProxyTest : public testing::Test {
 protected:
  // The server answers every request with the request's target, and counts the requests.
  FaultProxyTest()
      : authority_("fault proxy test"),
        server_({.tls = authority_.Issue({}), .client_authority_pem = authority_.certificate_pem()},
                [this](Peer& peer) {
                  const auto request = peer.ReadRequest();
                  if (!request) return;
                  ++arrived_;
                  peer.Answer(200, "{\"target\":\"" + request->target + "\"}");
                }),
        client_(authority_.Issue({.common_name = "system:node:n1"})),
        proxy_({.host = "127.0.0.1",
                .port = static_cast<std::uint16_t>(server_.port()),
                .certificate_authority = authority_.certificate_pem(),
                .client_certificate = client_.certificate_pem,
                .client_key = client_.key_pem}),
        api_(k8sclient::MakeHttpApi({.source = "test", .server = proxy_.Url()}).value()) {}

  Expected<k8sclient::Response> Patch(const CallOptions& options = CallOptions::Within(seconds(60))) {
    return api_->Call({.method = Method::kPatch, .path = "/x", .body = "{}"}, options);
  }
  void Always(Fault fault) {
    proxy_.Reset([fault](const SeenRequest&) { return fault; });
  }

  std::atomic<int> arrived_ = 0;
  Authority authority_;
  ScriptedServer server_;
  Identity client_;
  FaultProxy proxy_;
  std::unique_ptr<k8sclient::Api> api_;
};

TEST_F(FaultProxyTest, PassesRequestsAndAnswersThrough) {
  for (int i = 0; i < 3; ++i) {
    const auto answer = Patch();
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->body, R"({"target":"/x"})");
  }
  const auto seen = proxy_.Seen();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[2].index, 2);
  EXPECT_EQ(seen[2].method, "PATCH");
  EXPECT_EQ(seen[2].body, "{}");
  EXPECT_EQ(seen[2].status, 200);
}

TEST_F(FaultProxyTest, CutBeforeKeepsTheRequestFromTheServer) {
  Always(Fault::kCutBefore);
  EXPECT_EQ(Patch().error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(arrived_, 0);
}

TEST_F(FaultProxyTest, CutAfterLosesTheAnswerOnly) {
  Always(Fault::kCutAfter);
  EXPECT_EQ(Patch().error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(arrived_, 1);
}

TEST_F(FaultProxyTest, ALateRequestArrivesAtRelease) {
  Always(Fault::kLate);
  EXPECT_FALSE(Patch().has_value());
  EXPECT_EQ(arrived_, 0);
  EXPECT_THAT(proxy_.Release(), testing::ElementsAre(200));
  EXPECT_EQ(arrived_, 1);
  EXPECT_THAT(proxy_.Release(), testing::IsEmpty());
}

TEST_F(FaultProxyTest, ADroppedRequestNeverArrives) {
  Always(Fault::kLate);
  EXPECT_FALSE(Patch().has_value());
  proxy_.Drop();
  EXPECT_THAT(proxy_.Release(), testing::IsEmpty());
}

TEST_F(FaultProxyTest, AHeldRequestKeepsItsClientWaiting) {
  Always(Fault::kHold);
  std::jthread client([&](const std::stop_token& stop) { EXPECT_FALSE(Patch({.stop = stop}).has_value()); });
  EXPECT_TRUE(proxy_.AwaitHeld(seconds(60)));
  EXPECT_EQ(arrived_, 0);
  client.request_stop();
  client.join();
  EXPECT_THAT(proxy_.Release(), testing::ElementsAre(200));
}

TEST_F(FaultProxyTest, APausedRequestGoesItsWayAtResume) {
  Always(Fault::kPause);
  const std::jthread client([&] { EXPECT_TRUE(Patch().has_value()); });
  EXPECT_TRUE(proxy_.AwaitHeld(seconds(60)));
  EXPECT_EQ(arrived_, 0);
  proxy_.Resume();
}

TEST_F(FaultProxyTest, AStalledAnswerNeverComes) {
  Always(Fault::kStall);
  const std::jthread client([&](const std::stop_token& stop) { EXPECT_FALSE(Patch({.stop = stop}).has_value()); });
  EXPECT_TRUE(proxy_.AwaitHeld(seconds(60)));
  EXPECT_EQ(arrived_, 1);
}

TEST_F(FaultProxyTest, ThePolicySeesTheIndexSinceReset) {
  ASSERT_TRUE(Patch().has_value());
  proxy_.Reset([](const SeenRequest& request) { return request.index == 1 ? Fault::kCutBefore : Fault::kNone; });
  EXPECT_TRUE(Patch().has_value());
  EXPECT_FALSE(Patch().has_value());
  EXPECT_TRUE(Patch().has_value());
}

}  // namespace
}  // namespace berth::e2e
