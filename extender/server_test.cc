// SPDX-License-Identifier: Apache-2.0
// The server over real sockets and TLS, with callers of every kind.
#include "extender/server.h"

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

#include "k8sclient/testing/test_api.h"
#include "k8sclient/testing/test_certificates.h"

namespace berth::extender {
namespace {

using k8sclient::ClientConfig;
using k8sclient::Method;
using k8sclient::testing::Authority;
using k8sclient::testing::Soon;
using testing::HasSubstr;

// A TCP connection that says nothing of itself.
class SilentCaller {
 public:
  explicit SilentCaller(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
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

class ServerTest : public testing::Test {
 protected:
  ServerTest()
      : authority_("extender test"), folder_(std::filesystem::temp_directory_path() / "berth-extender-XXXXXX") {
    std::string text = folder_;
    folder_ = mkdtemp(text.data());
    Issue(authority_);
  }
  ~ServerTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  void Issue(const Authority& authority) const {
    const auto identity = authority.Issue({});
    Write("tls.crt", identity.certificate_pem);
    Write("tls.key", identity.key_pem);
  }
  [[nodiscard]] ServerOptions Options() const {
    return {.address = "127.0.0.1", .certificate_file = folder_ / "tls.crt", .key_file = folder_ / "tls.key"};
  }
  void Start(ServerOptions options) {
    auto started = Server::Start(
        std::move(options), [this](std::string_view method, std::string_view target, std::string_view body) {
          ++asked_;
          return HttpAnswer{.body =
                                std::string(method) + " " + std::string(target) + " " + std::to_string(body.size())};
        });
    ASSERT_TRUE(started) << started.error().message;
    server_ = *std::move(started);
  }
  [[nodiscard]] std::unique_ptr<k8sclient::HttpApi> Client(const Authority& authority, ClientConfig config = {}) const {
    config.server = "https://127.0.0.1:" + std::to_string(server_->port());
    config.certificate_authority.text = authority.certificate_pem();
    return k8sclient::testing::MakeApi(std::move(config));
  }
  // The answer's body, or its status, or why there is none.
  static std::string Ask(k8sclient::HttpApi& client, std::string body = "{}") {
    const auto answer = client.Call({.method = Method::kPost, .path = "/filter", .body = std::move(body)}, Soon());
    if (!answer) return "no answer: " + answer.error().message;
    return answer->ok() ? answer->body : "status " + std::to_string(answer->status);
  }
  [[nodiscard]] std::string Ask() const { return Ask(*Client(authority_)); }

  Authority authority_;
  std::filesystem::path folder_;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, HandsOverMethodPathAndBody) {
  Start(Options());
  const auto client = Client(authority_);
  EXPECT_EQ(Ask(*client, "12345"), "POST /filter 5");
  EXPECT_EQ(Ask(*client, "123"), "POST /filter 3") << "the connection is used again";
}

TEST_F(ServerTest, AnswersBodiesOfMegabytes) {
  Start(Options());
  EXPECT_EQ(Ask(*Client(authority_), std::string(3 << 20, 'x')), "POST /filter 3145728");
}

TEST_F(ServerTest, RefusesABodyThatIsTooLarge) {
  ServerOptions options = Options();
  options.limits.body_bytes = 1000;
  Start(std::move(options));
  EXPECT_EQ(Ask(*Client(authority_), std::string(1001, 'x')), "status 413");
  EXPECT_EQ(Ask(*Client(authority_), std::string(1000, 'x')), "POST /filter 1000");
}

TEST_F(ServerTest, RefusesLargeBodiesBeyondTheirNumber) {
  ServerOptions options = Options();
  options.limits.large_body_bytes = 10;
  options.limits.large_bodies = 0;
  Start(std::move(options));
  EXPECT_EQ(Ask(*Client(authority_), std::string(11, 'x')), "status 503");
  EXPECT_EQ(Ask(*Client(authority_), std::string(10, 'x')), "POST /filter 10");
}

TEST_F(ServerTest, SilentCallersHoldUpNobody) {
  ServerOptions options = Options();
  options.limits.connections = 4;
  Start(std::move(options));
  std::vector<std::unique_ptr<SilentCaller>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<SilentCaller>(server_->port()));
  EXPECT_EQ(Ask(), "POST /filter 2");
  silent.front()->AwaitEnd();  // the oldest made room
}

TEST_F(ServerTest, ASilentCallerMakesRoomBeforeAnIdleConnection) {
  ServerOptions options = Options();
  options.limits.connections = 2;
  options.limits.handshake = std::chrono::hours(1);
  Start(std::move(options));
  const auto idle = Client(authority_);
  EXPECT_EQ(Ask(*idle), "POST /filter 2");
  const SilentCaller silent(server_->port());
  EXPECT_EQ(Ask(), "POST /filter 2");
  silent.AwaitEnd();
}

TEST_F(ServerTest, ASilentCallerIsCutOffWhenItsTimeIsOver) {
  ServerOptions options = Options();
  options.limits.handshake = std::chrono::milliseconds(50);
  Start(std::move(options));
  const SilentCaller silent(server_->port());
  silent.AwaitEnd();
}

TEST_F(ServerTest, ACallerWithoutTlsIsCutOff) {
  Start(Options());
  const SilentCaller plain(server_->port());
  plain.Say("POST /filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
  plain.AwaitEnd();
  EXPECT_EQ(asked_, 0);
}

TEST_F(ServerTest, ReadsTheCertificateAnewWhenItChanges) {
  Start(Options());
  EXPECT_EQ(Ask(), "POST /filter 2");
  const Authority other("another");
  Issue(other);
  EXPECT_EQ(Ask(*Client(other)), "POST /filter 2");
  EXPECT_THAT(Ask(), HasSubstr("no answer"));
}

TEST_F(ServerTest, KeepsTheOldCertificateWhileTheNewOneCannotBeUsed) {
  Start(Options());
  Write("tls.key", "half a key");
  EXPECT_EQ(Ask(), "POST /filter 2");
}

TEST_F(ServerTest, AnswersOnlyCallersOfTheClientCaIfThereIsOne) {
  const Authority clients("clients");
  Write("clients.crt", clients.certificate_pem());
  ServerOptions options = Options();
  options.client_ca_file = folder_ / "clients.crt";
  Start(std::move(options));
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

TEST_F(ServerTest, SaysWhyItCannotStart) {
  const auto fails = [](ServerOptions options) {
    const auto started = Server::Start(std::move(options), [](auto, auto, auto) { return HttpAnswer{}; });
    return started ? std::string("it started") : started.error().message;
  };
  ServerOptions options = Options();
  options.address = "localhost";
  EXPECT_THAT(fails(options), HasSubstr("is no IP address"));
  options = Options();
  options.certificate_file = folder_ / "missing";
  EXPECT_THAT(fails(options), HasSubstr("missing"));
  Start(Options());
  options = Options();
  options.port = server_->port();
  EXPECT_THAT(fails(options), HasSubstr("cannot listen"));
  Write("tls.key", Authority("other").Issue({}).key_pem);
  EXPECT_THAT(fails(Options()), HasSubstr("key values mismatch"));
}

}  // namespace
}  // namespace berth::extender
