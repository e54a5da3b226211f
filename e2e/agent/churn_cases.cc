// SPDX-License-Identifier: Apache-2.0
// Churn while the agent is killed, is replaced, or has no API server: no address is given twice, lost, or left over.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "e2e/agent/churn.h"
#include "e2e/agent/node_fixture.h"
#include "e2e/alone.h"

namespace berth::e2e {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::IsEmpty;

constexpr int kRounds = 20;
constexpr int kCallsOfRound = 200;
constexpr int kCallers = 8;

class ChurnTest : public NodeTest {
 protected:
  // Expects that the blocks have entries for exactly the addresses in the ledger. Waits for that, because the agent
  // answers a DEL before it writes the DEL. Requires: no callers run.
  void ExpectRecordedIsHeld(const Churn& churn) {
    std::vector<std::string> held = churn.Held();
    std::ranges::sort(held);
    const auto recorded = [this] {
      std::vector<std::string> addresses = Allocated();
      std::ranges::sort(addresses);
      return addresses;
    };
    static_cast<void>(Eventually([&] { return recorded() == held; }));
    EXPECT_EQ(recorded(), held);
    EXPECT_THAT(churn.Complaints(), IsEmpty());
  }
  [[nodiscard]] static json DebugOf(const std::string& socket) {
    const auto reply = GetOverSocket(socket, "/debug/blocks");
    return reply ? json::parse(reply->body) : json();
  }
};

TEST_F(ChurnTest, AnAgentThatIsKilledTwentyTimesLosesAndDoublesNothing) {
  auto agent = ReadyAgent();
  Churn churn([this](const std::string& verb, const std::string& id, int) { return CallOf(verb, id, SocketPath()); },
              kCallers);
  int failed_before = 0;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    churn.Start(kCallsOfRound);
    churn.AwaitCalls(20 + round * 7);
    agent->Kill();
    agent = StartAgent();
    churn.MayEnd();
    churn.Join();
    ASSERT_TRUE(agent->AwaitReady());
    ExpectRecordedIsHeld(churn);
    failed_before = churn.failed_adds();
  }
  churn.DeleteAll();
  ExpectRecordedIsHeld(churn);
  EXPECT_THAT(Allocated(), IsEmpty());
  std::printf("agent killed %d times: %d ADDs answered, %d failed and were tried no more, %d DELs repeated\n",
              kRounds,
              churn.added(),
              failed_before,
              churn.repeated_dels());
}

TEST_F(ChurnTest, OfTwoAgentsTheOlderStopsAndNothingIsDoubledOrLeft) {
  // The sockets that callers use now: of the older and of the newer agent.
  std::mutex mutex;
  std::string older = SocketPath("s0");
  std::string newer = older;
  auto agent = ReadyAgent("s0");
  Churn churn(
      [&](const std::string& verb, const std::string& id, int turn) {
        const std::lock_guard lock(mutex);
        return CallOf(verb, id, turn % 2 == 0 ? older : newer, {{"timeoutSeconds", 5}});
      },
      kCallers);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    churn.Start(kCallsOfRound);
    churn.AwaitCalls(20 + round * 3);
    auto next = StartAgent("s" + std::to_string(round + 1));
    {
      const std::lock_guard lock(mutex);
      newer = next->settings().socket;
    }
    EXPECT_TRUE(next->AwaitReady());
    const std::string left = agent->settings().socket;
    EXPECT_TRUE(Eventually([&] { return !GetOverSocket(left, "/healthz"); }, seconds(20))) << "the older agent goes on";
    agent->Signal(SIGTERM);
    EXPECT_EQ(agent->AwaitEnd(seconds(60)).value_or(-1), 0);
    {
      const std::lock_guard lock(mutex);
      older = newer;
    }
    // Callers that wait at the older agent's socket get the newer agent, as if both had the same path.
    std::error_code error;
    std::filesystem::create_symlink(newer, left, error);
    churn.MayEnd();
    churn.Join();
    agent = std::move(next);
    ExpectRecordedIsHeld(churn);
  }
  churn.DeleteAll();
  ExpectRecordedIsHeld(churn);
  EXPECT_THAT(Allocated(), IsEmpty());
  std::printf("agent replaced %d times by another: %d ADDs answered, %d failed, %d DELs repeated\n",
              kRounds,
              churn.added(),
              churn.failed_adds(),
              churn.repeated_dels());
}

TEST_F(ChurnTest, ThirtySecondsWithoutApiServerCostNoDelAndNoAddress) {
  const auto agent = ReadyAgent();
  Churn churn(
      [this](const std::string& verb, const std::string& id, int) {
        return CallOf(verb, id, SocketPath(), {{"timeoutSeconds", 5}});
      },
      kCallers);
  churn.Start(kCallsOfRound);
  churn.AwaitCalls(kCallsOfRound / 2);
  const int failed_before = churn.failed_adds();
  const std::string control = Setting("BERTH_CLUSTER") + " ";
  const std::string options = " --dir " + Setting("BERTH_CLUSTER_DIR") + " >/dev/null 2>&1";
  // NOLINTNEXTLINE(bugprone-command-processor): a command of the test's own
  ASSERT_EQ(std::system((control + "stop-apiserver" + options).c_str()), 0);
  std::this_thread::sleep_for(seconds(30));  // the outage under test
  // NOLINTNEXTLINE(bugprone-command-processor): a command of the test's own
  ASSERT_EQ(std::system((control + "start-apiserver" + options).c_str()), 0);
  churn.AwaitCalls(churn.answered() + kCallsOfRound);
  churn.MayEnd();
  churn.Join();
  ExpectRecordedIsHeld(churn);
  churn.DeleteAll();
  ExpectRecordedIsHeld(churn);
  EXPECT_THAT(Allocated(), IsEmpty());
  EXPECT_TRUE(Eventually([&] { return DebugOf(SocketPath())["journal"].empty(); }));
  EXPECT_EQ(churn.repeated_dels(), 0);
  // A DEL that runs when the API server stops may be slow; the agent answers later DELs at once.
  if (IsAlone()) {
    EXPECT_LE(churn.slow_dels(), 2 * kCallers);
  }
  EXPECT_LT(churn.longest_del(), Promised(seconds(7)));
  std::printf(
      "API server down for 30 s: %d calls, %d ADDs failed with code 11, of %d DELs %d took over 1 s, at most %d ms\n",
      churn.answered(),
      churn.failed_adds() - failed_before,
      churn.dels(),
      churn.slow_dels(),
      static_cast<int>(churn.longest_del().count()));
}

}  // namespace
}  // namespace berth::e2e
