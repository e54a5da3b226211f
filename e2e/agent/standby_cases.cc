// SPDX-License-Identifier: Apache-2.0
// Two agents of one node, as for a while during an update: the agent that started last serves, the other is passive.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>

#include "e2e/agent/node_fixture.h"

namespace berth::e2e {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

class TwoAgentsTest : public NodeTest {
 protected:
  [[nodiscard]] std::string ProbePath(const std::string& name) const { return scratch() + "/" + name + ".probe"; }
  // Starts an agent. Both agents use the same socket, and each has its own socket for probes.
  [[nodiscard]] std::unique_ptr<AgentProcess> Start(const std::string& name) const {
    return StartAgent("agent", "", {"--probe-socket", ProbePath(name)});
  }
  // The exit status of the probe command that a kubelet would run.
  [[nodiscard]] int Probe(const std::string& name, const std::string& option = "") const {
    const std::string command =
        Setting("BERTH_AGENT") + " probe " + option + " --socket " + ProbePath(name) + " >" + scratch() + "/said";
    const int status = std::system(command.c_str());  // NOLINT(bugprone-command-processor,concurrency-mt-unsafe)
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string Said() const {
    std::ifstream file(scratch() + "/said");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] bool IsReady(const std::string& name) const { return Probe(name, "--ready") == 0; }
  [[nodiscard]] bool Serves(const std::string& name) const { return IsReady(name) && Said().starts_with("ok"); }
  [[nodiscard]] bool StandsBy(const std::string& name) const {
    return IsReady(name) && Said().contains("waiting: another agent");
  }
  [[nodiscard]] int TakeOvers() const {
    std::ifstream log(scratch() + "/agent.log");
    int count = 0;
    for (std::string line; std::getline(log, line);)
      count += line.find(" serving socket=") != std::string::npos ? 1 : 0;
    return count;
  }
};

TEST_F(TwoAgentsTest, TheOlderStandsByAndServesAgainWhenTheNewerIsGone) {
  const auto older = Start("older");
  ASSERT_TRUE(Eventually([&] { return Serves("older"); }));
  ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c1", SocketPath()))), "");
  const auto newer = Start("newer");
  ASSERT_TRUE(Eventually([&] { return Serves("newer"); }));
  EXPECT_TRUE(Eventually([&] { return StandsBy("older"); })) << Said();
  EXPECT_EQ(Probe("older"), 0) << "what stands by is well, and is not to be restarted";
  ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c2", SocketPath()))), "");

  newer->Kill();
  ASSERT_TRUE(Eventually([&] { return Serves("older"); }));
  ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c3", SocketPath()))), "");
  for (const char* id : {"c1", "c2", "c3"}) EXPECT_EQ(RunPlugin(CallOf("DEL", id, SocketPath())).exit_code, 0);
  EXPECT_TRUE(Eventually([this] { return Allocated().empty(); }));
}

// The newer agent is in a crash loop: each of its starts takes over, and the older agent serves in between.
TEST_F(TwoAgentsTest, TheNewerTakesOverOncePerStartAndTheTwoDoNotTakeTurns) {
  const auto older = Start("older");
  ASSERT_TRUE(Eventually([&] { return Serves("older"); }));
  const auto newer = Start("newer");
  ASSERT_TRUE(Eventually([&] { return Serves("newer") && StandsBy("older"); }));
  // In this time the older agent checks several times whether the newer agent lives, while calls go on.
  int calls = 0;
  for (const auto end = steady_clock::now() + seconds(2); steady_clock::now() < end; ++calls) {
    EXPECT_NE(AddressOf(RunPlugin(CallOf("ADD", "c", SocketPath()))), "");
    EXPECT_EQ(RunPlugin(CallOf("DEL", "c", SocketPath())).exit_code, 0);
  }
  EXPECT_GT(calls, 0);
  EXPECT_EQ(TakeOvers(), 2);
  EXPECT_TRUE(Serves("newer"));
  EXPECT_TRUE(StandsBy("older"));
}

// The newer agent notices that its files are gone, and records again which addresses pods have. If the older agent
// served before that, another pod could get such an address.
TEST_F(TwoAgentsTest, TheOlderWaitsForTheNewerAlsoIfTheirFilesAreRemoved) {
  const auto older = Start("older");
  ASSERT_TRUE(Eventually([&] { return Serves("older"); }));
  const auto newer = Start("newer");
  ASSERT_TRUE(Eventually([&] { return Serves("newer") && StandsBy("older"); }));
  newer->Signal(SIGSTOP);
  std::filesystem::remove_all(std::filesystem::path(SocketPath()).parent_path() / "nodes");
  for (const auto end = steady_clock::now() + seconds(1); steady_clock::now() < end;) EXPECT_TRUE(StandsBy("older"));
  newer->Signal(SIGCONT);
  EXPECT_TRUE(Eventually([this] { return !AddressOf(RunPlugin(CallOf("ADD", "c1", SocketPath()))).empty(); }));
  newer->Kill();
  EXPECT_TRUE(Eventually([&] { return Serves("older"); })) << Said();
  EXPECT_EQ(RunPlugin(CallOf("DEL", "c1", SocketPath())).exit_code, 0);
}

TEST_F(TwoAgentsTest, OneThatStandsByEndsAtOnceWhenItIsTold) {
  const auto older = Start("older");
  ASSERT_TRUE(Eventually([&] { return Serves("older"); }));
  const auto newer = Start("newer");
  ASSERT_TRUE(Eventually([&] { return Serves("newer") && StandsBy("older"); }));
  older->Signal(SIGTERM);
  EXPECT_EQ(older->AwaitEnd(seconds(5)).value_or(-1), 0);
  EXPECT_TRUE(Serves("newer"));
}

}  // namespace
}  // namespace berth::e2e
