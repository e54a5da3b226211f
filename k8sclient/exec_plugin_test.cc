// SPDX-License-Identifier: Apache-2.0
// Credential plugins: runs of real shell scripts, and outputs that are accepted or refused.
#include "k8sclient/exec_plugin.h"

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "k8sclient/child_process.h"

namespace berth::k8sclient {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kV1[] = "client.authentication.k8s.io/v1";

ExecPlugin Script(const std::string& script) { return {.api_version = kV1, .command = "sh", .args = {"-c", script}}; }

void LogNothing(const std::string& /*line*/) {}

Expected<ExecCredential> Credential(const ExecPlugin& plugin, milliseconds limit = seconds(20),
                                    const LogLine& log = LogNothing) {
  return RunExecPlugin(plugin, {.source = "config", .server = "https://a"}, "CA", CallOptions::Within(limit), log);
}

TEST(ExecPlugin, GivesATokenAndWhenItExpires) {
  const auto credential = Credential(Script(
      R"(echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"2030-01-01T00:00:00Z"}}')"));
  ASSERT_TRUE(credential.has_value()) << credential.error().message;
  EXPECT_EQ(credential->token, "t");
  EXPECT_EQ(credential->expires, std::chrono::sys_days(std::chrono::year(2030) / 1 / 1));
}

TEST(ExecPlugin, SeesItsOwnEnvironmentItsInputAndNoTerminal) {
  ExecPlugin plugin = Script(
      R"(cat; test "$A" = b && test -n "$PATH" && printf '%s' "$KUBERNETES_EXEC_INFO" | grep -q '"interactive":false' &&
         printf '%s' "$KUBERNETES_EXEC_INFO" | grep -q '"server":"https://a"' &&
         printf '%s' "$KUBERNETES_EXEC_INFO" | grep -q '"certificate-authority-data":"Q0E="' &&
         echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}')");
  plugin.environment = {{"A", "b"}};
  plugin.provide_cluster_info = true;
  const auto credential = Credential(plugin);
  EXPECT_TRUE(credential.has_value()) << credential.error().message;
}

// An error may become an event of a pod, and the pod's tenant can read events.
TEST(ExecPlugin, WhatItWritesToStderrIsInTheLogAndInNoError) {
  std::string logged;
  const auto credential = Credential(Script("echo token s3cret; echo refresh token h1dden is expired >&2; exit 3"),
                                     seconds(20),
                                     [&logged](const std::string& line) { logged += line; });
  ASSERT_FALSE(credential.has_value());
  const Error& error = credential.error();
  EXPECT_EQ(error.code, ErrorCode::kUnauthenticated);
  EXPECT_TRUE(error.message.ends_with("ended with code 3")) << error.message;
  EXPECT_TRUE(error.details.contains("log")) << error.details;
  EXPECT_FALSE((error.message + error.details).contains("h1dden"));
  EXPECT_TRUE(logged.contains("refresh token h1dden is expired")) << logged;
  EXPECT_FALSE(logged.contains("s3cret")) << "the output is the token itself";
}

TEST(ExecPlugin, AMissingPluginIsNamedWithItsHint) {
  const auto credential =
      Credential({.api_version = kV1, .command = "berth-no-such-plugin", .install_hint = "install it with apt"});
  ASSERT_FALSE(credential.has_value());
  EXPECT_NE(credential.error().message.find("berth-no-such-plugin"), std::string::npos);
  EXPECT_EQ(credential.error().details, "install it with apt");
}

TEST(ExecPlugin, AHangingPluginIsKilledWithItsChildren) {
  const auto credential = Credential(Script("sleep 600 & sleep 600"), milliseconds(200));
  ASSERT_FALSE(credential.has_value());
  EXPECT_EQ(credential.error().code, ErrorCode::kUnauthenticated);
  EXPECT_TRUE(credential.error().message.contains("took too long")) << credential.error().message;
}

TEST(ExecPlugin, StopEndsIt) {
  std::stop_source stop;
  const std::jthread stopper([&stop] { stop.request_stop(); });
  const auto credential = RunExecPlugin(
      Script("sleep 600"), {.source = "config", .server = "https://a"}, "", {.stop = stop.get_token()}, LogNothing);
  EXPECT_FALSE(credential.has_value());
}

TEST(ChildProcess, AGrandchildThatKeepsThePipeOpenHoldsUpNobody) {
  const auto result =
      RunChild({.program = "sh", .args = {"-c", "sleep 600 & echo done"}, .environment = {"PATH=/usr/bin:/bin"}},
               CallOptions::Within(seconds(20)));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->output, "done\n");
}

TEST(ChildProcess, OutputIsBounded) {
  const auto result = RunChild(
      {.program = "sh", .args = {"-c", "yes"}, .environment = {"PATH=/usr/bin:/bin"}, .output_bytes_max = 10'000},
      CallOptions::Within(seconds(20)));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
}

TEST(ChildProcess, ErrorOutputKeepsItsEnd) {
  const auto result =
      RunChild({.program = "sh",
                .args = {"-c", "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; kill -TERM $$"},
                .environment = {"PATH=/usr/bin:/bin"}},
               CallOptions::Within(seconds(20)));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->error_output.ends_with("line 1999\n"));
  EXPECT_LE(result->error_output.size(), 4096U);
  EXPECT_EQ(result->exit_code, 128 + 15);
}

struct OutputCase {
  const char* name;
  const char* output;
  const char* want;  // part of the message
};
class ExecOutput : public ::testing::TestWithParam<OutputCase> {};

TEST_P(ExecOutput, IsRefusedWithAReasonAndNotQuoted) {
  const auto credential = ParseExecCredential(GetParam().output, kV1);
  ASSERT_FALSE(credential.has_value());
  EXPECT_EQ(credential.error().code, ErrorCode::kUnauthenticated);
  EXPECT_NE(credential.error().message.find(GetParam().want), std::string::npos) << credential.error().message;
  EXPECT_EQ(credential.error().message.find("s3cret"), std::string::npos);
}

constexpr OutputCase kOutputCases[] = {
    {"Empty", "", "not print a JSON object"},
    {"Text", "s3cret", "not print a JSON object"},
    {"AnotherKind", R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"Pod"})", "an ExecCredential"},
    {"AnotherVersion",
     R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential"})",
     "ExecCredential"},
    {"NoStatus", R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"})", "no status"},
    {"NothingInside",
     R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}})",
     "neither a token nor a certificate"},
    {"CertificateWithoutKey",
     R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":"s3cret"}})",
     "not both"},
    {"BadTime",
     R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"s3cret","expirationTimestamp":"soon"}})",
     "is not a time"},
};
INSTANTIATE_TEST_SUITE_P(Table, ExecOutput, ::testing::ValuesIn(kOutputCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
