// SPDX-License-Identifier: Apache-2.0
// HttpServer with TLS: callers, limits and certificates.

#include <arpa/inet.h>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/http_server.h"
#include "k8sclient/testing/test_api.h"
#include "k8sclient/testing/test_certificates.h"

namespace berth::http {
namespace {

using k8sclient::ClientConfig;
using k8sclient::Method;
using k8sclient::testing::Authority;
using k8sclient::testing::Soon;
using testing::HasSubstr;

// A TCP connection that sends only the bytes that the test passes to Say.
class SilentCaller {
 public:
  explicit SilentCaller(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  SilentCaller(const SilentCaller&) = delete;
  SilentCaller& operator=(const SilentCaller&) = delete;
  ~SilentCaller() { close(fd_); }

  void Say(std::string_view bytes) const { static_cast<void>(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL)); }
  // Waits until the server closes the connection.
  void AwaitEnd() const {
    char byte = 0;
    while (recv(fd_, &byte, 1, 0) > 0) {
    }
  }

 private:
  int fd_;
};

class HttpsServerTest : public testing::Test {
 protected:
  HttpsServerTest() : authority_("https test"), folder_(std::filesystem::temp_directory_path() / "berth-https-XXXXXX") {
    std::string text = folder_;
    folder_ = mkdtemp(text.data());
    Issue(authority_);
  }
  ~HttpsServerTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  void Issue(const Authority& authority) const {
    const auto identity = authority.Issue({});
    Write("tls.crt", identity.certificate_pem);
    Write("tls.key", identity.key_pem);
  }
  [[nodiscard]] HttpServerOptions Options() const {
    return {.tcp_address = "127.0.0.1:0",
            .shares_port = false,
            .tcp_limits = {.workers = 4, .reading_max = 32, .body_bytes_max = std::size_t{16} << 20},
            .tls = {{.certificate = folder_ / "tls.crt", .key = folder_ / "tls.key"}}};
  }
  void Start(const HttpServerOptions& options) {
    auto started = HttpServer::Make(options,
                                    {.answer =
                                         [this](const HttpRequest& request) {
                                           ++asked_;
                                           return HttpAnswer{.body = request.method + " " + request.path + " " +
                                                                     std::to_string(request.body.size())};
                                         },
                                     .overload = [] { return HttpAnswer{.status = 503}; }});
    ASSERT_TRUE(started) << started.error().message;
    server_ = *std::move(started);
  }
  [[nodiscard]] std::unique_ptr<k8sclient::Api> Client(const Authority& authority, ClientConfig config = {}) const {
    config.server = "https://127.0.0.1:" + std::to_string(server_->tcp_port());
    config.certificate_authority.text = authority.certificate_pem();
    return k8sclient::testing::MakeApi(std::move(config));
  }
  // The answer's body, or its status if it is a refusal, or the error if no answer came.
  static std::string Ask(k8sclient::Api& client, std::string body = "{}") {
    const auto answer = client.Call({.method = Method::kPost, .path = "/filter", .body = std::move(body)}, Soon());
    if (!answer) return "no answer: " + answer.error().message;
    return answer->ok() ? answer->body : "status " + std::to_string(answer->status);
  }
  [[nodiscard]] std::string Ask() const { return Ask(*Client(authority_)); }

  Authority authority_;
  std::filesystem::path folder_;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpsServerTest, HandsOverMethodPathAndBody) {
  Start(Options());
  const auto client = Client(authority_);
  EXPECT_EQ(Ask(*client, "12345"), "POST /filter 5");
  EXPECT_EQ(Ask(*client, "123"), "POST /filter 3") << "the connection is used again";
}

TEST_F(HttpsServerTest, AnswersBodiesOfMegabytes) {
  Start(Options());
  EXPECT_EQ(Ask(*Client(authority_), std::string(3 << 20, 'x')), "POST /filter 3145728");
}

TEST_F(HttpsServerTest, RefusesABodyThatIsTooLarge) {
  HttpServerOptions options = Options();
  options.tcp_limits.body_bytes_max = 1000;
  Start(options);
  EXPECT_EQ(Ask(*Client(authority_), std::string(1001, 'x')), "status 413");
  EXPECT_EQ(Ask(*Client(authority_), std::string(1000, 'x')), "POST /filter 1000");
}

TEST_F(HttpsServerTest, RefusesTooManyLargeBodies) {
  HttpServerOptions options = Options();
  options.tcp_limits.large_body_bytes = 10;
  options.tcp_limits.large_bodies_max = 0;
  Start(options);
  EXPECT_EQ(Ask(*Client(authority_), std::string(11, 'x')), "status 503");
  EXPECT_EQ(Ask(*Client(authority_), std::string(10, 'x')), "POST /filter 10");
}

TEST_F(HttpsServerTest, SilentCallersDoNotDelayOthers) {
  HttpServerOptions options = Options();
  options.tcp_limits.reading_max = 4;
  Start(options);
  std::vector<std::unique_ptr<SilentCaller>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<SilentCaller>(server_->tcp_port()));
  EXPECT_EQ(Ask(), "POST /filter 2");
  silent.front()->AwaitEnd();  // the server closed the oldest connection
}

TEST_F(HttpsServerTest, ClosesASilentConnectionBeforeAnIdleOne) {
  HttpServerOptions options = Options();
  options.tcp_limits.reading_max = 2;
  options.tcp_limits.io_max = std::chrono::hours(1);
  Start(options);
  const auto idle = Client(authority_);
  EXPECT_EQ(Ask(*idle), "POST /filter 2");
  const SilentCaller silent(server_->tcp_port());
  EXPECT_EQ(Ask(), "POST /filter 2");
  silent.AwaitEnd();
}

TEST_F(HttpsServerTest, ASilentCallerIsCutOffWhenItsTimeIsOver) {
  HttpServerOptions options = Options();
  options.tcp_limits.io_max = std::chrono::milliseconds(50);
  Start(options);
  const SilentCaller silent(server_->tcp_port());
  silent.AwaitEnd();
}

TEST_F(HttpsServerTest, EndsAConnectionAfterAnAnswerThatSaysSo) {
  auto started =
      HttpServer::Make(Options(),
                       {.answer =
                            [this](const HttpRequest&) {
                              return HttpAnswer{.headers = {{"Connection", "close"}}, .body = std::to_string(++asked_)};
                            },
                        .overload = [] { return HttpAnswer{.status = 503}; }});
  ASSERT_TRUE(started) << started.error().message;
  server_ = *std::move(started);
  const auto client = Client(authority_);
  const auto answer = client->Call({.method = Method::kPost, .path = "/filter", .body = "{}"}, Soon());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "1");
  EXPECT_EQ(Ask(*client), "2") << "over another connection";
}

TEST_F(HttpsServerTest, EndsEvenIfAConnectionIsIdle) {
  Start(Options());
  const auto idle = Client(authority_);
  EXPECT_EQ(Ask(*idle), "POST /filter 2");
  const auto begin = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(110))
      << "idle connections may stay two minutes";
}

TEST_F(HttpsServerTest, ACallerWithoutTlsIsCutOff) {
  Start(Options());
  const SilentCaller plain(server_->tcp_port());
  plain.Say("POST /filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
  plain.AwaitEnd();
  EXPECT_EQ(asked_, 0);
}

TEST_F(HttpsServerTest, ReadsTheCertificateAnewWhenItChanges) {
  Start(Options());
  EXPECT_EQ(Ask(), "POST /filter 2");
  const Authority other("another");
  Issue(other);
  EXPECT_EQ(Ask(*Client(other)), "POST /filter 2");
  EXPECT_THAT(Ask(), HasSubstr("no answer"));
}

TEST_F(HttpsServerTest, KeepsTheOldCertificateWhileTheNewOneCannotBeUsed) {
  Start(Options());
  Write("tls.key", "half a key");
  EXPECT_EQ(Ask(), "POST /filter 2");
}

TEST_F(HttpsServerTest, AnswersOnlyCallersOfTheClientCaIfThereIsOne) {
  const Authority clients("clients");
  Write("clients.crt", clients.certificate_pem());
  HttpServerOptions options = Options();
  options.tls->client_ca = folder_ / "clients.crt";
  Start(options);
  EXPECT_THAT(Ask(), HasSubstr("no answer"));
  const auto scheduler = clients.Issue({.common_name = "scheduler"});
  EXPECT_EQ(Ask(*Client(authority_,
                        {.client_certificate = {.text = scheduler.certificate_pem},
                         .client_key = {.text = scheduler.key_pem}})),
            "POST /filter 2");
  const auto stranger = authority_.Issue({.common_name = "stranger"});
  EXPECT_THAT(Ask(*Client(authority_,
                          {.client_certificate = {.text = stranger.certificate_pem},
                           .client_key = {.text = stranger.key_pem}})),
              HasSubstr("no answer"));
}

TEST_F(HttpsServerTest, SaysWhyItCannotStart) {
  const auto fails = [](const HttpServerOptions& options) {
    const auto started = HttpServer::Make(options, {});
    return started ? std::string("it started") : started.error().message;
  };
  HttpServerOptions options = Options();
  options.tls->certificate = folder_ / "missing";
  EXPECT_THAT(fails(options), HasSubstr("missing"));
  Start(Options());
  options = Options();
  options.tcp_address = "127.0.0.1:" + std::to_string(server_->tcp_port());
  EXPECT_THAT(fails(options), HasSubstr("listen on " + options.tcp_address));
  Write("tls.key", Authority("other").Issue({}).key_pem);
  EXPECT_THAT(fails(Options()), HasSubstr("key values mismatch"));
}

}  // namespace
}  // namespace berth::http
