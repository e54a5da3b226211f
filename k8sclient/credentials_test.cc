// SPDX-License-Identifier: Apache-2.0
// Credentials: when files are read again, when plugins run again, and which headers a request gets.
#include "k8sclient/credentials.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "k8sclient/testing/fake_clock.h"

namespace berth::k8sclient {
namespace {

using std::chrono::seconds;
using testing::FakeClock;

class CredentialsTest : public ::testing::Test {
 protected:
  Credentials Make(ClientConfig config) {
    config.source = "config";
    config.server = "https://a";
    config.insecure_skip_tls_verify = config.certificate_authority.empty();
    return {std::move(config),
            [this](const std::string& path) -> Expected<std::string> {
              const std::lock_guard lock(mutex_);
              ++reads_;
              const auto it = files_.find(path);
              if (it == files_.end()) return Fail(ErrorCode::kIo, "read \"" + path + "\": gone");
              return it->second;
            },
            clock_};
  }

  std::mutex mutex_;
  std::map<std::string, std::string> files_;
  int reads_ = 0;
  FakeClock clock_;
};

using Headers = std::vector<std::string>;

TEST_F(CredentialsTest, ATokenFileIsReadAgainAfterAMinuteAndNotBefore) {
  files_["/t"] = "one\n";
  Credentials credentials = Make({.token = {.path = "/t"}});
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer one"}));
  files_["/t"] = "two";
  clock_.Advance(seconds(50));
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer one"}));
  clock_.Advance(seconds(11));
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer two"}));
  EXPECT_EQ(reads_, 2);
}

TEST_F(CredentialsTest, ARejectedTokenIsReadAgainAtOnce) {
  files_["/t"] = "one";
  Credentials credentials = Make({.token = {.path = "/t"}});
  const auto first = *credentials.Current({});
  files_["/t"] = "two";
  credentials.Reject(first);
  const auto second = *credentials.Current({});
  EXPECT_EQ(second->headers, (Headers{"Authorization: Bearer two"}));
  EXPECT_EQ(second->tls, first->tls) << "connections stay good when only the token changes";
}

TEST_F(CredentialsTest, RejectingAnOutdatedSnapshotReadsNothing) {
  files_["/t"] = "one";
  Credentials credentials = Make({.token = {.path = "/t"}});
  const auto first = *credentials.Current({});
  files_["/t"] = "two";
  credentials.Reject(first);
  (void)credentials.Current({});
  credentials.Reject(first);  // a second thread got a 401 at the same time
  (void)credentials.Current({});
  EXPECT_EQ(reads_, 2);
}

TEST_F(CredentialsTest, IsTheSameSnapshotUntilSomethingChanges) {
  files_["/t"] = "one";
  Credentials credentials = Make({.token = {.path = "/t"}});
  const auto first = *credentials.Current({});
  credentials.Reject(first);
  EXPECT_EQ(*credentials.Current({}), first);
}

TEST_F(CredentialsTest, AFileThatIsMissingForAMomentChangesNothing) {
  files_["/t"] = "one";
  Credentials credentials = Make({.token = {.path = "/t"}});
  (void)credentials.Current({});
  files_.clear();
  clock_.Advance(seconds(61));
  const auto current = credentials.Current({});
  ASSERT_TRUE(current.has_value());
  EXPECT_EQ((*current)->headers, (Headers{"Authorization: Bearer one"}));
}

TEST_F(CredentialsTest, AFileThatIsMissingAtFirstIsAnErrorThatNamesIt) {
  const auto current = Make({.token = {.path = "/t"}}).Current({});
  ASSERT_FALSE(current.has_value());
  EXPECT_EQ(current.error().code, ErrorCode::kDecode);
  EXPECT_EQ(current.error().message, "config: token: read \"/t\": gone");
}

TEST_F(CredentialsTest, AnEmptyFileIsAnError) {
  files_["/ca"] = "";
  const auto current = Make({.certificate_authority = {.path = "/ca"}}).Current({});
  ASSERT_FALSE(current.has_value());
  EXPECT_EQ(current.error().code, ErrorCode::kDecode);
}

TEST_F(CredentialsTest, ChangedCertificatesAskForNewConnections) {
  files_ = {{"/ca", "CA 1"}, {"/c", "C"}, {"/k", "K"}};
  Credentials credentials = Make(
      {.certificate_authority = {.path = "/ca"}, .client_certificate = {.path = "/c"}, .client_key = {.path = "/k"}});
  const auto first = *credentials.Current({});
  for (const char* path : {"/ca", "/c", "/k"}) {
    const auto before = *credentials.Current({});
    files_[path] += " renewed";
    clock_.Advance(seconds(61));
    EXPECT_NE((*credentials.Current({}))->tls, before->tls) << path;
  }
  EXPECT_EQ(first->tls->certificate_authority_pem, "CA 1");
}

TEST_F(CredentialsTest, CertificateAndKeyInOneFileAreReadOnce) {
  files_["/both"] = "PEM";
  Credentials credentials = Make({.client_certificate = {.path = "/both"}, .client_key = {.path = "/both"}});
  EXPECT_EQ((*credentials.Current({}))->tls->key_pem, "PEM");
  EXPECT_EQ(reads_, 1);
}

TEST_F(CredentialsTest, PasswordsAndImpersonationBecomeHeaders) {
  Credentials credentials = Make({.username = "Aladdin",
                                  .password = "open sesame",
                                  .impersonate_user = "jane",
                                  .impersonate_uid = "7",
                                  .impersonate_groups = {"a", "b"},
                                  .impersonate_extra = {{"example.org/scope", {"x"}}}});
  EXPECT_EQ((*credentials.Current({}))->headers,
            (Headers{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                     "Impersonate-User: jane",
                     "Impersonate-Uid: 7",
                     "Impersonate-Group: a",
                     "Impersonate-Group: b",
                     "Impersonate-Extra-example.org%2Fscope: x"}));
}

TEST_F(CredentialsTest, ALineBreakInsideATokenIsRefused) {
  files_["/t"] = "one\r\nX-Remote-User: admin";
  const auto current = Make({.token = {.path = "/t"}}).Current({});
  ASSERT_FALSE(current.has_value());
  EXPECT_EQ(current.error().code, ErrorCode::kDecode);
  EXPECT_EQ(current.error().message.find("admin"), std::string::npos);
}

TEST_F(CredentialsTest, UsesTheSystemsAuthoritiesIfNoneIsGivenAndFailsWithoutAny) {
  const ClientConfig config{.source = "config", .server = "https://a"};
  files_["/etc/pki/tls/certs/ca-bundle.crt"] = "SYSTEM";
  const auto read = [this](const std::string& path) -> Expected<std::string> {
    const auto it = files_.find(path);
    if (it == files_.end()) return Fail(ErrorCode::kIo, "gone");
    return it->second;
  };
  EXPECT_EQ((*Credentials(config, read, clock_).Current({}))->tls->certificate_authority_pem, "SYSTEM");
  files_.clear();
  EXPECT_EQ(Credentials(config, read, clock_).Current({}).error().code, ErrorCode::kDecode);
}

// A plugin that counts its runs in a file and prints the count as the token.
class ExecCredentialsTest : public CredentialsTest {
 protected:
  ~ExecCredentialsTest() override { std::remove(counter_.c_str()); }
  Credentials MakeExec(const std::string& status_extra) {
    const std::string script =
        "echo >> " + counter_ + "; printf '" +
        R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s")" +
        status_extra + "}}' $(wc -l < " + counter_ + ")";
    return Make({.exec = ExecPlugin{
                     .api_version = "client.authentication.k8s.io/v1", .command = "sh", .args = {"-c", script}}});
  }
  const std::string counter_ = ::testing::TempDir() + "berth_exec_count." + std::to_string(getpid());
};

TEST_F(ExecCredentialsTest, ThePluginRunsAgainWhenItsCredentialHasExpired) {
  Credentials credentials = MakeExec(R"(,"expirationTimestamp":"2099-01-01T00:00:00Z")");
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer 1"}));
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer 1"}));
  clock_.Advance(std::chrono::years(90));
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer 2"}));
}

TEST_F(ExecCredentialsTest, ACredentialThatExpiresInTheYear9999StaysGood) {
  Credentials credentials = MakeExec(R"(,"expirationTimestamp":"9999-12-31T23:59:59Z")");
  (void)credentials.Current({});
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer 1"}));
}

TEST_F(ExecCredentialsTest, ThePluginRunsAgainWhenItsCredentialIsRejected) {
  Credentials credentials = MakeExec("");
  const auto first = *credentials.Current({});
  credentials.Reject(first);
  EXPECT_EQ((*credentials.Current({}))->headers, (Headers{"Authorization: Bearer 2"}));
}

// Linux refuses a program one of whose environment variables is longer than 128 KiB.
TEST_F(ExecCredentialsTest, ThePluginRunsHoweverLongTheSystemsListOfAuthoritiesIs) {
  ClientConfig config = MakeExec("").config();
  config.insecure_skip_tls_verify = false;
  config.exec->provide_cluster_info = true;
  const auto read = [](const std::string& /*path*/) -> Expected<std::string> { return std::string(200'000, 'A'); };
  const auto current = Credentials(config, read, clock_).Current({});
  ASSERT_TRUE(current.has_value()) << current.error().message;
  EXPECT_EQ((*current)->tls->certificate_authority_pem.size(), 200'000U);
}

TEST_F(ExecCredentialsTest, ManyThreadsRunThePluginOnce) {
  Credentials credentials = MakeExec("");
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const auto current = credentials.Current(CallOptions::Within(seconds(20)));
        if (current && (*current)->headers == Headers{"Authorization: Bearer 1"}) ++good;
      });
    }
  }
  EXPECT_EQ(good, 8);
}

TEST_F(ExecCredentialsTest, WaitingForAnotherThreadsPluginHasATimeLimit) {
  ASSERT_EQ(mkfifo(counter_.c_str(), 0600), 0);
  Credentials credentials = Make({.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                                                     .command = "sh",
                                                     .args = {"-c", "echo runs > " + counter_ + "; sleep 600"}}});
  std::stop_source stop;
  const std::jthread runner([&] { (void)credentials.Current({.stop = stop.get_token()}); });
  ASSERT_TRUE(ReadWholeFile(counter_)) << "the plugin does not run";  // returns when the plugin opens it
  const auto waited = credentials.Current(CallOptions::Within(std::chrono::milliseconds(10)));
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().code, ErrorCode::kTimeout);
  stop.request_stop();
}

}  // namespace
}  // namespace berth::k8sclient
