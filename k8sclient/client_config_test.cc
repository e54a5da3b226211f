// SPDX-License-Identifier: Apache-2.0
// ClientConfig: files, the user name, and the configuration of a pod.
#include "k8sclient/client_config.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "k8sclient/testing/test_certificates.h"

namespace berth::k8sclient {
namespace {

Expected<std::string> NoFile(const std::string& path) { return Fail(ErrorCode::kIo, "no " + path); }

GetEnvironment Environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::string() : it->second;
  };
}

TEST(UserName, IsTheCommonNameOfTheCertificateInTheTextOrTheFile) {
  const testing::Authority authority("CA");
  const std::string pem = authority.Issue({.common_name = "system:node:n1"}).certificate_pem;
  EXPECT_EQ(UserName({.source = "f", .server = "s", .client_certificate = {.text = pem}}, &NoFile), "system:node:n1");
  const auto read = [&pem](const std::string&) -> Expected<std::string> { return pem; };
  EXPECT_EQ(UserName({.source = "f", .server = "s", .client_certificate = {.path = "/c"}}, read), "system:node:n1");
}

TEST(UserName, FallsBackToUsernameThenToTheEntry) {
  EXPECT_EQ(UserName({.source = "f", .server = "s", .username = "jane", .user_entry = "u"}, &NoFile), "jane");
  EXPECT_EQ(UserName({.source = "f", .server = "s", .user_entry = "system:node:n1"}, &NoFile), "system:node:n1");
}

TEST(UserName, IsTheImpersonatedOne) {
  EXPECT_EQ(UserName({.source = "f", .server = "s", .impersonate_user = "jane", .user_entry = "u"}, &NoFile), "jane");
}

TEST(UserName, ACertificateThatCannotBeReadIsAnError) {
  const auto missing = UserName({.source = "f", .server = "s", .client_certificate = {.path = "/c"}}, &NoFile);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kDecode);
  const auto malformed = UserName({.source = "f", .server = "s", .client_certificate = {.text = "x"}}, &NoFile);
  ASSERT_FALSE(malformed.has_value());
  EXPECT_EQ(malformed.error().code, ErrorCode::kDecode);
}

TEST(InCluster, TakesServerAndFiles) {
  const auto config = InClusterConfig(
      Environment({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}}), "/sa");
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->token.path, "/sa/token");
  EXPECT_EQ(config->certificate_authority.path, "/sa/ca.crt");
}

TEST(InCluster, BracketsAnIpv6Address) {
  const auto config =
      InClusterConfig(Environment({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}), "/sa");
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
}

TEST(InCluster, FailsOutsideOfAPod) {
  const auto config = InClusterConfig(Environment({}), "/sa");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kEnvironment);
}

class ReadWholeFileTest : public ::testing::Test {
 protected:
  ~ReadWholeFileTest() override { std::remove(path_.c_str()); }
  void Write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  const std::string path_ = ::testing::TempDir() + "berth_read_whole_file." + std::to_string(getpid());
};

TEST_F(ReadWholeFileTest, ReadsEveryByte) {
  for (const std::size_t size : {0U, 1U, 16383U, 16384U, 16385U, 100'000U}) {
    std::string text(size, 'x');
    if (size > 0) text.back() = '\0';
    Write(text);
    EXPECT_EQ(ReadWholeFile(path_), text) << size;
  }
}

TEST_F(ReadWholeFileTest, RefusesWhatIsTooLargeMissingOrAFolder) {
  Write(std::string((std::size_t{4} << 20) + 1, 'x'));
  for (const std::string& path : {path_, path_ + "-missing", ::testing::TempDir()}) {
    const auto text = ReadWholeFile(path);
    ASSERT_FALSE(text.has_value()) << path;
    EXPECT_EQ(text.error().code, ErrorCode::kIo);
    EXPECT_NE(text.error().message.find(path), std::string::npos);
  }
}

}  // namespace
}  // namespace berth::k8sclient
