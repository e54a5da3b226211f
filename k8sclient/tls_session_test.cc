// SPDX-License-Identifier: Apache-2.0
// TLS sessions that one process leaves to the next: who resumes which, and that nothing is trusted for it that would
// not be trusted without.
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "k8sclient/testing/test_api.h"

namespace berth::k8sclient {
namespace {

using testing::Authority;
using testing::Identity;
using testing::MakeApi;
using testing::Peer;
using testing::ReceivedRequest;
using testing::ScriptedServer;
using testing::Soon;

class TlsSession : public ::testing::Test {
 protected:
  [[nodiscard]] ScriptedServer::Options ServerOptions() const {
    return {.tls = server_authority_.Issue({}), .client_authority_pem = client_authority_.certificate_pem()};
  }
  [[nodiscard]] testing::Script Serving() {
    return [this](Peer& peer) {
      while (auto request = peer.ReadRequest()) {
        {
          const std::scoped_lock lock(mutex_);
          seen_.push_back(*request);
        }
        peer.Answer(200, "{}");
      }
    };
  }
  [[nodiscard]] ClientConfig ConfigFor(const std::string& url) const {
    return {.server = url,
            .certificate_authority = {.text = server_authority_.certificate_pem()},
            .client_certificate = {.text = client_.certificate_pem},
            .client_key = {.text = client_.key_pem}};
  }
  // One process after the other: each has one call. Nothing: it failed.
  std::optional<ReceivedRequest> NextProcess(const ClientConfig& config) {
    const HttpApiOptions options{.clock = &clock_,
                                 .tls_sessions = TlsSessionStore{.read = [this] { return kept_; },
                                                                 .write =
                                                                     [this](const std::string& session) {
                                                                       kept_ = session;
                                                                       ++writes_;
                                                                     }}};
    const auto api = MakeApi(config, options);
    const auto response = api->Call({.path = "/a"}, Soon());
    if (!response) return {};
    const std::scoped_lock lock(mutex_);
    return seen_.back();
  }
  // For the processes that come.
  void LetPass(std::chrono::seconds time) { clock_.ahead += time; }

  const Authority server_authority_{"server CA"};
  const Authority client_authority_{"client CA"};
  const Identity client_ = client_authority_.Issue({.common_name = "system:node:n1"});
  std::optional<std::string> kept_;
  int writes_ = 0;

 private:
  struct ShiftedClock final : Clock {
    std::chrono::steady_clock::time_point Now() override { return RealClock().Now(); }
    std::chrono::nanoseconds SinceBoot() override { return RealClock().SinceBoot(); }
    std::chrono::system_clock::time_point WallNow() override { return RealClock().WallNow() + ahead; }
    bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) override {
      return RealClock().Sleep(duration, stop);
    }
    double Random() override { return RealClock().Random(); }
    std::chrono::seconds ahead{0};
  };

  ShiftedClock clock_;
  std::mutex mutex_;
  std::vector<ReceivedRequest> seen_;
};

TEST_F(TlsSession, OfOneProcessIsResumedByTheNextAsTheSameUser) {
  ScriptedServer server(ServerOptions(), Serving());
  const auto first = NextProcess(ConfigFor(server.url()));
  const auto second = NextProcess(ConfigFor(server.url()));
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(first->tls_resumed);
  EXPECT_TRUE(second->tls_resumed);
  EXPECT_EQ(second->peer_common_name, "system:node:n1");
}

TEST_F(TlsSession, HasNoSuccessorThatLivesLonger) {
  ScriptedServer server(ServerOptions(), Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  const auto kept = kept_;
  const int writes = writes_;
  ASSERT_TRUE(NextProcess(ConfigFor(server.url()))->tls_resumed);
  EXPECT_EQ(writes_, writes);
  EXPECT_EQ(kept_, kept);
}

TEST_F(TlsSession, OfMoreThanAnHourAgoIsNotResumed) {
  ScriptedServer server(ServerOptions(), Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  LetPass(std::chrono::seconds(3500));
  EXPECT_TRUE(NextProcess(ConfigFor(server.url()))->tls_resumed);
  LetPass(std::chrono::seconds(200));
  EXPECT_FALSE(NextProcess(ConfigFor(server.url()))->tls_resumed);
}

TEST_F(TlsSession, OfTheFutureIsNotResumed) {
  ScriptedServer server(ServerOptions(), Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  LetPass(std::chrono::seconds(-60));
  EXPECT_FALSE(NextProcess(ConfigFor(server.url()))->tls_resumed);
}

TEST_F(TlsSession, OfTls12IsNotKept) {
  ScriptedServer::Options options = ServerOptions();
  options.tls12_only = true;
  ScriptedServer server(options, Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  EXPECT_EQ(kept_, std::nullopt);
}

TEST_F(TlsSession, OfWhichAnyPartIsGoneOrChangedIsNotResumed) {
  ScriptedServer server(ServerOptions(), Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  const std::string good = *kept_;
  for (const std::size_t at : {std::size_t{0}, std::size_t{20}, good.size() / 2, good.size() - 1}) {
    kept_ = good.substr(0, at);
    auto request = NextProcess(ConfigFor(server.url()));
    ASSERT_TRUE(request) << at << " bytes of it";
    EXPECT_FALSE(request->tls_resumed) << at << " bytes of it";
    kept_ = good;
    kept_->at(at) = static_cast<char>(~kept_->at(at));
    request = NextProcess(ConfigFor(server.url()));
    ASSERT_TRUE(request) << "byte " << at << " changed";
    EXPECT_FALSE(request->tls_resumed) << "byte " << at << " changed";
  }
}

TEST_F(TlsSession, IsSealed) {
  ScriptedServer server(ServerOptions(), Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  const std::string first = *kept_;
  LetPass(std::chrono::hours(2));
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  // An encoded one would begin as any other does: with its structure and version.
  EXPECT_NE(first.substr(0, 12), kept_->substr(0, 12));
}

TEST_F(TlsSession, OfAClientWithoutAKeyIsNotKept) {
  ScriptedServer server({.tls = server_authority_.Issue({})}, Serving());
  ClientConfig config = ConfigFor(server.url());
  config.client_certificate = {};
  config.client_key = {};
  ASSERT_TRUE(NextProcess(config));
  EXPECT_EQ(kept_, std::nullopt) << "nothing secret to seal it with";
}

// OpenSSL's servers fail such a handshake, for fear of what they do not understand.
TEST_F(TlsSession, ThatAServerCannotBearIsForgottenAndCostsNoCall) {
  ScriptedServer::Options options = ServerOptions();
  options.fails_resumption = true;
  ScriptedServer server(options, Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  ASSERT_FALSE(kept_->empty());
  const int connections = server.connections();
  const auto request = NextProcess(ConfigFor(server.url()));
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->tls_resumed);
  EXPECT_EQ(server.connections(), connections + 2);
}

TEST_F(TlsSession, IsKeptWhileNobodyListens) {
  ClientConfig config;
  {
    ScriptedServer server(ServerOptions(), Serving());
    config = ConfigFor(server.url());
    ASSERT_TRUE(NextProcess(config));
  }
  const auto kept = kept_;
  EXPECT_FALSE(NextProcess(config));
  EXPECT_EQ(kept_, kept);
}

// What a session was made with is part of whose it is.
struct OtherOwner {
  const char* name;
  void (*change)(ClientConfig&, const Authority& authority, const Identity& other);
};
class TlsSessionOfAnother : public TlsSession, public ::testing::WithParamInterface<OtherOwner> {};

TEST_P(TlsSessionOfAnother, IsNotResumed) {
  ScriptedServer server(ServerOptions(), Serving());
  ASSERT_TRUE(NextProcess(ConfigFor(server.url())));
  ClientConfig other = ConfigFor(server.url());
  GetParam().change(other, Authority("another CA"), client_authority_.Issue({.common_name = "other"}));
  const auto request = NextProcess(other);
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->tls_resumed);
}

const OtherOwner kOtherOwners[] = {
    {"Name", [](ClientConfig& c, const Authority&, const Identity&) { c.tls_server_name = "localhost"; }},
    {"Authorities",
     [](ClientConfig& c, const Authority& another, const Identity&) {
       c.certificate_authority.text += another.certificate_pem();
     }},
    {"Client",
     [](ClientConfig& c, const Authority&, const Identity& other) {
       c.client_certificate.text = other.certificate_pem;
       c.client_key.text = other.key_pem;
     }},
    {"Trust",
     [](ClientConfig& c, const Authority&, const Identity&) {
       c.certificate_authority = {};
       c.insecure_skip_tls_verify = true;
     }},
};
INSTANTIATE_TEST_SUITE_P(Table, TlsSessionOfAnother, ::testing::ValuesIn(kOtherOwners),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(TlsSession, ThatWasMadeWithoutVerificationProvesNothing) {
  ScriptedServer::Options options = ServerOptions();
  options.tls = Authority("another CA").Issue({});
  ScriptedServer server(options, Serving());
  ClientConfig trusting = ConfigFor(server.url());
  trusting.certificate_authority = {};
  trusting.insecure_skip_tls_verify = true;
  ASSERT_TRUE(NextProcess(trusting));
  ASSERT_TRUE(kept_);
  EXPECT_FALSE(NextProcess(ConfigFor(server.url())));
}

// Two servers behind one address, of which the second does not know the first one's sessions.
class TlsSessionOfAServerThatIsGone : public TlsSession {
 protected:
  std::optional<ReceivedRequest> AfterReplacementBy(ScriptedServer::Options options) {
    ScriptedServer first(ServerOptions(), Serving());
    ScriptedServer second(std::move(options), Serving());
    ScriptedServer front([&](Peer& peer) { peer.Relay(peer.index() == 0 ? first.port() : second.port()); });
    const std::string url = "https://127.0.0.1:" + std::to_string(front.port());
    EXPECT_TRUE(NextProcess(ConfigFor(url)));
    EXPECT_TRUE(kept_);
    return NextProcess(ConfigFor(url));
  }
};

TEST_F(TlsSessionOfAServerThatIsGone, GivesWayToAWholeHandshake) {
  const auto request = AfterReplacementBy(ServerOptions());
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->tls_resumed);
  EXPECT_EQ(request->peer_common_name, "system:node:n1");
}

TEST_F(TlsSessionOfAServerThatIsGone, DoesNotSpareItsSuccessorTheProof) {
  ScriptedServer::Options options = ServerOptions();
  options.tls = Authority("another CA").Issue({});
  EXPECT_FALSE(AfterReplacementBy(options));
}

TEST_F(TlsSessionOfAServerThatIsGone, DoesNotSpareItsSuccessorTheName) {
  ScriptedServer::Options options = ServerOptions();
  options.tls = server_authority_.Issue({.names = {"IP:10.0.0.1"}});
  EXPECT_FALSE(AfterReplacementBy(options));
}

}  // namespace
}  // namespace berth::k8sclient
