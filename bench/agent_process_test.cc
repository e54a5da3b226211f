// SPDX-License-Identifier: Apache-2.0
// AgentProcess: it runs as long as the object lives.
#include "bench/agent_process.h"

#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

TEST(AgentProcess, EndsWithTheObject) {
  pid_t pid = 0;
  {
    const auto process = AgentProcess::Start("/bin/sleep", {"600"}, "/dev/null");
    ASSERT_TRUE(process.has_value()) << process.error().message;
    pid = process->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(AgentProcess, SaysWhichProgramIsMissing) {
  const auto process = AgentProcess::Start("/nonexistent/agent", {}, "/dev/null");
  ASSERT_FALSE(process.has_value());
  EXPECT_NE(process.error().message.find("/nonexistent/agent"), std::string::npos);
}

}  // namespace
}  // namespace berth::bench
