// SPDX-License-Identifier: Apache-2.0
// PluginProcess: environment and configuration in, answer and exit code out.
#include "cni/testing/plugin_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni_testing {
namespace {

using ::testing::HasSubstr;

// A shell reads its script from stdin, like a plugin its configuration.
PluginCall Shell(std::string script) {
  return {.binary = "/bin/sh", .environment = {{"CNI_COMMAND", "ADD"}}, .input = std::move(script)};
}

TEST(PluginProcess, GetsEnvironmentAndConfiguration) {
  const PluginOutcome outcome = RunPlugin(Shell("echo \"$CNI_COMMAND\"; echo trouble >&2"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "ADD\n");
  EXPECT_EQ(outcome.err, "trouble\n");
}

TEST(PluginProcess, GetsMoreThanAPipeHolds) {
  PluginCall call = Shell("wc -c");
  call.binary = "/usr/bin/wc";
  call.input = std::string(300'000, 'x');
  EXPECT_THAT(RunPlugin(std::move(call)).out, HasSubstr("300000"));
}

TEST(PluginProcess, TellsTheExitCode) {
  const PluginOutcome outcome = RunPlugin(Shell("echo '{\"code\": 7}'; exit 1"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "{\"code\": 7}\n");
}

TEST(PluginProcess, TellsTheSignal) {
  const PluginOutcome outcome = RunPlugin(Shell("kill -9 $$"));
  EXPECT_EQ(outcome.exit_code, -1);
  EXPECT_EQ(outcome.signal, 9);
}

TEST(PluginProcess, GoesOnWithoutItsParent) {
  PluginCall call = Shell("read line; echo \"$line\"");
  call.has_mortal_parent = call.is_fed_at_start = true;
  call.input = "echo alone\n";
  PluginProcess process(std::move(call));
  process.KillParent();
  EXPECT_EQ(process.Wait().exit_code, 0);
}

TEST(PluginProcess, SaysWhichProgramIsMissing) {
  for (const bool has_mortal_parent : {false, true}) {
    PluginCall call{.binary = "/nonexistent/plugin"};
    call.has_mortal_parent = has_mortal_parent;
    const PluginOutcome outcome = RunPlugin(std::move(call));
    EXPECT_EQ(outcome.exit_code, 127);
    EXPECT_EQ(outcome.err, "start /nonexistent/plugin: No such file or directory");
  }
}

}  // namespace
}  // namespace berth::cni_testing
