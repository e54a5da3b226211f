// SPDX-License-Identifier: Apache-2.0
// RunPlugin: environment and configuration in, answer and exit code out.
#include "bench/plugin_call.h"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

// A shell reads its script from stdin, as a plugin reads its configuration.
PluginCall Shell(std::string script) {
  return {.program = "/bin/sh", .environment = {"CNI_COMMAND=ADD"}, .config = std::move(script)};
}

TEST(RunPlugin, HandsOverEnvironmentAndConfiguration) {
  const auto answer = RunPlugin(Shell("echo \"$CNI_COMMAND\"; echo not shown >&2"));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->exit_code, 0);
  EXPECT_EQ(answer->output, "ADD\n");
}

TEST(RunPlugin, TellsTheExitCode) {
  const auto answer = RunPlugin(Shell("echo '{\"code\": 7}'; exit 1"));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->exit_code, 1);
  EXPECT_EQ(answer->output, "{\"code\": 7}\n");
}

TEST(RunPlugin, TellsTheSignal) {
  const auto answer = RunPlugin(Shell("kill -9 $$"));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->exit_code, 128 + 9);
}

TEST(RunPlugin, SaysWhichProgramIsMissing) {
  const auto answer = RunPlugin({.program = "/nonexistent/plugin", .environment = {}, .config = "{}"});
  ASSERT_FALSE(answer.has_value());
  EXPECT_NE(answer.error().message.find("/nonexistent/plugin"), std::string::npos);
}

}  // namespace
}  // namespace berth::bench
