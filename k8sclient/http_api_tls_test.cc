// SPDX-License-Identifier: Apache-2.0
// HttpApi's trust: which certificates HttpApi accepts, and how it connects through proxies.
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "k8sclient/testing/test_api.h"

namespace berth::k8sclient {
namespace {

using testing::Authority;
using testing::CertificateOptions;
using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;
using testing::Soon;

const Request kTlsRead{.path = "/a"};

void Serve(Peer& peer) {
  while (peer.ReadRequest()) peer.Answer(200, "{}");
}

struct CertificateCase {
  const char* name;
  CertificateOptions certificate;
  const char* tls_server_name;
  const char* want;  // part of the refusal; "": accepted
};
class ServerCertificate : public ::testing::TestWithParam<CertificateCase> {};

TEST_P(ServerCertificate, IsVerified) {
  const CertificateCase& c = GetParam();
  const Authority authority("CA");
  std::atomic<int> seen = 0;
  ScriptedServer server({.tls = authority.Issue(c.certificate)}, [&seen](Peer& peer) {
    while (peer.ReadRequest()) {
      ++seen;
      peer.Answer(200, "{}");
    }
  });
  const auto api = MakeApi({.server = server.url(),
                            .tls_server_name = c.tls_server_name,
                            .certificate_authority = {.text = authority.certificate_pem()}});
  const auto response = api->Call({.method = Method::kPost, .path = "/a", .body = "{}"}, Soon());
  if (*c.want == '\0') {
    ASSERT_TRUE(response.has_value()) << response.error().message;
    return;
  }
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable) << "nothing was sent, so nothing happened";
  EXPECT_NE(response.error().message.find(c.want), std::string::npos) << response.error().message;
  EXPECT_NE(response.error().details.find("certificate-authority"), std::string::npos);
  EXPECT_EQ(seen, 0);
}

const CertificateCase kCertificateCases[] = {
    {"Good", {}, "", ""},
    {"Expired", {.valid_from_now = std::chrono::seconds(-60)}, "", "certificate has expired"},
    {"AnotherAddress", {.names = {"IP:10.0.0.1"}}, "", "IP address mismatch"},
    {"AddressAsAName", {.names = {"DNS:127.0.0.1"}}, "", "IP address mismatch"},
    {"OnlyACommonName", {.common_name = "127.0.0.1", .names = {}}, "", "IP address mismatch"},
    {"TlsServerName", {.names = {"DNS:kubernetes.default"}}, "kubernetes.default", ""},
    {"AnotherTlsServerName", {.names = {"DNS:kubernetes"}}, "kubernetes.default", "hostname mismatch"},
    {"CommonNameIsNoName", {.common_name = "api", .names = {"DNS:other"}}, "api", "hostname mismatch"},
    {"Wildcard", {.names = {"DNS:*.example.org"}}, "api.example.org", ""},
    {"WildcardIsOneLabel", {.names = {"DNS:*.example.org"}}, "a.b.example.org", "hostname mismatch"},
};
INSTANTIATE_TEST_SUITE_P(Table, ServerCertificate, ::testing::ValuesIn(kCertificateCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Trust, AnotherAuthorityOfTheSameNameIsRefused) {
  const Authority ours("CA");
  const Authority theirs("CA");
  ScriptedServer server({.tls = theirs.Issue({})}, &Serve);
  const auto response = MakeApi({.server = server.url(), .certificate_authority = {.text = ours.certificate_pem()}})
                            ->Call(kTlsRead, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
}

TEST(Trust, WithAnAuthorityGivenTheSystemsAreNotTrusted) {
  const Authority ours("our CA");
  const Authority systems("system CA");
  ScriptedServer server({.tls = systems.Issue({})}, &Serve);
  const HttpApiOptions options{
      .read_file = [&systems](const std::string&) -> Expected<std::string> { return systems.certificate_pem(); }};
  EXPECT_TRUE(MakeApi({.server = server.url()}, options)->Call(kTlsRead, Soon()).has_value());
  EXPECT_FALSE(MakeApi({.server = server.url(), .certificate_authority = {.text = ours.certificate_pem()}}, options)
                   ->Call(kTlsRead, Soon())
                   .has_value());
}

TEST(Trust, EveryAuthorityOfABundleIsTrusted) {
  const Authority old_one("old CA");
  const Authority new_one("new CA");
  ScriptedServer server({.tls = new_one.Issue({})}, &Serve);
  const std::string bundle = "# our authorities\n" + old_one.certificate_pem() + "\n" + new_one.certificate_pem();
  const auto response =
      MakeApi({.server = server.url(), .certificate_authority = {.text = bundle}})->Call(kTlsRead, Soon());
  EXPECT_TRUE(response.has_value()) << response.error().message;
}

TEST(Trust, SkippedVerificationSkipsIt) {
  const Authority theirs("their CA");
  ScriptedServer server({.tls = theirs.Issue({.names = {"DNS:other"}, .valid_from_now = std::chrono::seconds(-60)})},
                        &Serve);
  const auto response = MakeApi({.server = server.url(), .insecure_skip_tls_verify = true})->Call(kTlsRead, Soon());
  EXPECT_TRUE(response.has_value()) << response.error().message;
}

TEST(Trust, AServerThatSpeaksNoTlsIsRefused) {
  const Authority authority("CA");
  ScriptedServer server([](Peer& peer) { peer.Answer(400, "Client sent an HTTPS request to an HTTP server."); });
  const auto response = MakeApi({.server = "https://127.0.0.1:" + std::to_string(server.port()),
                                 .certificate_authority = {.text = authority.certificate_pem()}})
                            ->Call(kTlsRead, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
}

TEST(ClientCertificate, ThatTheServerDoesNotAcceptFailsTheCall) {
  const Authority authority("server CA");
  const Authority clients("client CA");
  const testing::Identity stranger = Authority("other CA").Issue({});
  ScriptedServer server({.tls = authority.Issue({}), .client_authority_pem = clients.certificate_pem()}, &Serve);
  const auto response = MakeApi({.server = server.url(),
                                 .certificate_authority = {.text = authority.certificate_pem()},
                                 .client_certificate = {.text = stranger.certificate_pem},
                                 .client_key = {.text = stranger.key_pem}})
                            ->Call(kTlsRead, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(response.error().message.find("alert unknown ca"), std::string::npos) << response.error().message;
}

struct MaterialCase {
  const char* name;
  const char* authority;  // "good": a valid one
  const char* certificate;
  const char* key;
  const char* want;  // part of the message
};
class BadMaterial : public ::testing::TestWithParam<MaterialCase> {};

TEST_P(BadMaterial, IsAnErrorOfTheConfiguration) {
  const Authority authority("CA");
  const testing::Identity one = authority.Issue({});
  const testing::Identity other = authority.Issue({});
  const auto text = [](const char* given, const std::string& good) {
    return Material{.text = given == std::string("good") ? good : given};
  };
  const MaterialCase& c = GetParam();
  ScriptedServer server({.tls = authority.Issue({})}, &Serve);
  const auto response = MakeApi({.source = "config",
                                 .server = server.url(),
                                 .certificate_authority = text(c.authority, authority.certificate_pem()),
                                 .client_certificate = text(c.certificate, one.certificate_pem),
                                 .client_key = c.key == std::string("other") ? Material{.text = other.key_pem}
                                                                             : text(c.key, one.key_pem)})
                            ->Call(kTlsRead, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kDecode);
  EXPECT_NE(response.error().message.find(c.want), std::string::npos) << response.error().message;
  EXPECT_TRUE(response.error().message.starts_with("config: ")) << response.error().message;
}

constexpr MaterialCase kMaterialCases[] = {
    {"AuthorityNotPem", "x", "good", "good", "certificate-authority holds no certificate"},
    {"CertificateNotPem", "good", "x", "good", "client-certificate and client-key cannot be used"},
    {"KeyNotPem", "good", "good", "x", "client-certificate and client-key cannot be used"},
    {"KeyOfAnother", "good", "good", "other", "client-certificate and client-key cannot be used"},
    {"EncryptedKey",
     "good",
     "good",
     "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh\n-----END ENCRYPTED "
     "PRIVATE "
     "KEY-----\n",
     "client-certificate and client-key cannot be used"},
};
INSTANTIATE_TEST_SUITE_P(Table, BadMaterial, ::testing::ValuesIn(kMaterialCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(ClientCertificate, AndKeyThatAreReplacedOneAfterTheOtherAreReadAgain) {
  const Authority authority("CA");
  const testing::Identity before = authority.Issue({});
  const testing::Identity after = authority.Issue({});
  ScriptedServer server({.tls = authority.Issue({})}, &Serve);
  std::map<std::string, std::string> files{{"/c", before.certificate_pem}, {"/k", after.key_pem}};
  const auto read = [&files](const std::string& path) -> Expected<std::string> { return files.at(path); };
  const auto api = MakeApi({.server = server.url(),
                            .certificate_authority = {.text = authority.certificate_pem()},
                            .client_certificate = {.path = "/c"},
                            .client_key = {.path = "/k"}},
                           {.read_file = read});
  EXPECT_FALSE(api->Call(kTlsRead, Soon()).has_value());
  files["/c"] = after.certificate_pem;
  EXPECT_TRUE(api->Call(kTlsRead, Soon()).has_value());
}

TEST(ClientCertificate, OfAPluginThatCannotBeUsedDoesNotRunThePluginForEachCall) {
  const Authority authority("CA");
  const std::string runs = ::testing::TempDir() + "plugin-runs-" + std::to_string(getpid());
  const std::string script = "echo >> " + runs + "; printf '%s' '" +
                             R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)" +
                             R"("status":{"clientCertificateData":"x","clientKeyData":"y"}})" + "'";
  ScriptedServer server({.tls = authority.Issue({})}, &Serve);
  const auto api = MakeApi(
      {.server = server.url(),
       .certificate_authority = {.text = authority.certificate_pem()},
       .exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1", .command = "sh", .args = {"-c", script}}});
  for (int call = 0; call < 2; ++call) {
    const auto response = api->Call(kTlsRead, Soon());
    ASSERT_FALSE(response.has_value());
    EXPECT_EQ(response.error().code, ErrorCode::kDecode) << response.error().message;
  }
  EXPECT_EQ(ReadWholeFile(runs).value_or(""), "\n");
  std::remove(runs.c_str());
}

// An HTTP proxy that takes "CONNECT" and relays to `port`.
testing::Script ConnectProxy(int port, std::string& seen) {
  return [port, &seen](Peer& peer) {
    const auto request = peer.ReadRequest();
    if (!request) return;
    const auto authorization = request->headers.find("proxy-authorization");
    seen = request->method + " " + request->target +
           (authorization == request->headers.end() ? "" : " " + authorization->second);
    peer.Send("HTTP/1.1 200 Connection established\r\n\r\n");
    peer.Relay(port);
  };
}

class ThroughProxy : public ::testing::Test {
 protected:
  [[nodiscard]] Expected<Response> CallThrough(const std::string& proxy_url) const {
    return MakeApi({.server = server_.url(),
                    .certificate_authority = {.text = authority_.certificate_pem()},
                    .proxy_url = proxy_url})
        ->Call(kTlsRead, Soon());
  }
  const Authority authority_{"CA"};
  ScriptedServer server_{{.tls = authority_.Issue({})}, &Serve};
  const std::string target_ = "127.0.0.1:" + std::to_string(server_.port());
};

TEST_F(ThroughProxy, HttpAsksForATunnelAndVerifiesTheServerBehindIt) {
  std::string seen;
  ScriptedServer proxy(ConnectProxy(server_.port(), seen));
  const auto response = CallThrough("http://us%3Aer:pw@127.0.0.1:" + std::to_string(proxy.port()));
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(seen, "CONNECT " + target_ + " Basic dXM6ZXI6cHc=");
}

TEST_F(ThroughProxy, HttpsIsTlsWithinTls) {
  std::string seen;
  ScriptedServer proxy({.tls = authority_.Issue({})}, ConnectProxy(server_.port(), seen));
  const auto response = CallThrough(proxy.url());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(seen, "CONNECT " + target_);
}

TEST_F(ThroughProxy, AnHttpsProxyIsVerifiedToo) {
  std::string seen;
  ScriptedServer proxy({.tls = Authority("other CA").Issue({})}, ConnectProxy(server_.port(), seen));
  EXPECT_FALSE(CallThrough(proxy.url()).has_value());
  EXPECT_EQ(seen, "");
}

TEST_F(ThroughProxy, Socks5ConnectsByAddress) {
  std::string seen;
  ScriptedServer proxy([&](Peer& peer) {
    if (peer.ReadBytes(3) != std::string("\x05\x01\x00", 3)) return;
    peer.Send(std::string("\x05\x00", 2));
    seen = peer.ReadBytes(10);
    peer.Send(std::string("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", 10));
    peer.Relay(server_.port());
  });
  const auto response = CallThrough("socks5://127.0.0.1:" + std::to_string(proxy.port()));
  ASSERT_TRUE(response.has_value()) << response.error().message;
  const auto port = static_cast<unsigned>(server_.port());
  const std::string want = std::string("\x05\x01\x00\x01\x7f\x00\x00\x01", 8) + static_cast<char>(port >> 8) +
                           static_cast<char>(port & 0xff);
  EXPECT_EQ(seen, want);
}

TEST_F(ThroughProxy, Socks5LogsInAndLeavesNamesToTheProxy) {
  std::string seen;
  ScriptedServer proxy([&](Peer& peer) {
    (void)peer.ReadBytes(4);
    peer.Send(std::string("\x05\x02", 2));
    seen = peer.ReadBytes(1 + 1 + 4 + 1 + 2);
    peer.Send(std::string("\x01\x00", 2));
    seen += peer.ReadBytes(4 + 1 + 9 + 2);
    peer.Send(std::string("\x05\x00\x00\x03\x04name\x00\x00", 11));
    peer.Relay(server_.port());
  });
  const auto response = MakeApi({.server = "https://localhost",
                                 .certificate_authority = {.text = authority_.certificate_pem()},
                                 .proxy_url = "socks5://user:pw@127.0.0.1:" + std::to_string(proxy.port())})
                            ->Call(kTlsRead, Soon());
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(seen, std::string("\x01\x04user\x02pw\x05\x01\x00\x03\x09localhost\x01\xbb", 25));
}

struct ProxyRefusalCase {
  const char* name;
  const char* scheme;
  std::string answer;
  const char* want;
};
class ProxyRefusal : public ::testing::TestWithParam<ProxyRefusalCase> {};

TEST_P(ProxyRefusal, MeansThatNothingHappened) {
  const ProxyRefusalCase& c = GetParam();
  ScriptedServer proxy([&c](Peer& peer) {
    (void)peer.ReadBytes(3);
    peer.Send(c.answer);
    if (c.answer.size() > 1 && c.answer != "HTTP/1.1 20") peer.AwaitClose();
  });
  const auto response = MakeApi({.server = "http://10.0.0.1",
                                 .proxy_url = c.scheme + std::string("://127.0.0.1:") + std::to_string(proxy.port())})
                            ->Call({.method = Method::kPost, .path = "/a"}, Soon());
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(response.error().message.find(c.want), std::string::npos) << response.error().message;
  EXPECT_NE(response.error().details.find("proxy"), std::string::npos);
}

const ProxyRefusalCase kProxyRefusalCases[] = {
    {"HttpLogin", "http", "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"},
    {"HttpForbidden", "http", "HTTP/1.1 403 Forbidden\r\n\r\n", "403"},
    {"HttpClosed", "http", "HTTP/1.1 20", "CONNECT aborted"},
    {"HttpEndless", "http", std::string(100'000, 'x'), "too large"},
    {"SocksNoLogin", "socks5", std::string("\x05\xff", 2), "No authentication method was acceptable"},
    {"SocksNotSocks", "socks5", "HTTP/1.1 400", "invalid version"},
    {"SocksRefuses",
     "socks5",
     std::string("\x05\x00\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", 12),
     "Can't complete SOCKS5 connection"},
    {"SocksClosed", "socks5", "\x05", "connection to proxy closed"},
};
INSTANTIATE_TEST_SUITE_P(Table, ProxyRefusal, ::testing::ValuesIn(kProxyRefusalCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
