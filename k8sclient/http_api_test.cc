// SPDX-License-Identifier: Apache-2.0
// HttpApi against a server that answers well: what is sent, and how connections are kept.
#include "k8sclient/http_api.h"

#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "k8sclient/testing/scripted_server.h"

namespace berth::k8sclient {
namespace {

using ipam::Expected;
using testing::Peer;
using testing::ReceivedRequest;
using testing::ScriptedServer;

const auto kNoEnvironment = [](const std::string&) { return std::string(); };

CallOptions Soon() { return CallOptions::Within(std::chrono::seconds(10)); }

std::unique_ptr<HttpApi> MakeApi(ClientConfig config) {
  Expected<std::unique_ptr<HttpApi>> api = HttpApi::Make(std::move(config), {.environment = kNoEnvironment});
  EXPECT_TRUE(api.has_value());
  return std::move(*api);
}

// Answers each request with 200 and what it received: method, target, headers that matter, body.
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
  const auto api = MakeApi({.source = "test", .server = server.url()});
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
  const auto api = MakeApi({.source = "test", .server = server.url()});
  for (const Method method : {Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}) {
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
  const auto api = MakeApi({.source = "test",
                            .server = server.url(),
                            .certificate_authority = {.text = authority.certificate_pem()},
                            .client_certificate = {.text = client.certificate_pem},
                            .client_key = {.text = client.key_pem}});
  const auto response = api->Call({.path = "/a"}, Soon());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(seen, "system:node:n1");
}

}  // namespace
}  // namespace berth::k8sclient
