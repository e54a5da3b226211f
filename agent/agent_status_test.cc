// SPDX-License-Identifier: Apache-2.0
// Tests STATUS: a node is NotReady only if no agent has loaded its blocks since boot.
#include <filesystem>

#include "agent/agent_test_setup.h"

namespace berth::agent {
namespace {

class StatusTest : public AgentTest {
 protected:
  void TakeTheApiServerAway() {
    api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  }
  void StartAndAwaitReady() {
    StartAgent();
    Await([&] { return agent_->IsReady(); }, "the agent is ready");
  }
  Reply Status() { return agent_->Handle(Body("STATUS", "")); }
};

TEST_F(StatusTest, FailsUntilTheBlocksAreLoadedForTheFirstTime) {
  TakeTheApiServerAway();
  StartAgent();
  EXPECT_EQ(nlohmann::json::parse(Status().body)["code"], 50);
  EXPECT_FALSE(std::filesystem::exists(LoadedMark()));
}

TEST_F(StatusTest, IsGoodAfterARestartWhileTheApiServerIsAway) {
  StartAndAwaitReady();
  agent_.reset();
  TakeTheApiServerAway();
  StartAgent();
  EXPECT_TRUE(Status().ok);
}

TEST_F(StatusTest, IsGoodWhileTheAgentEnds) {
  StartAndAwaitReady();
  agent_->BeginStop();
  EXPECT_TRUE(Status().ok);
}

TEST_F(StatusTest, LeavesAMarkWithWhichBerthAnswersWhileNoAgentListens) {
  StartAndAwaitReady();
  agent_.reset();
  EXPECT_TRUE(std::filesystem::exists(LoadedMark()));
}

TEST_F(StatusTest, FailsAgainOnceABootHasTakenTheMark) {
  StartAndAwaitReady();
  agent_.reset();
  std::filesystem::remove(LoadedMark());
  TakeTheApiServerAway();
  StartAgent();
  EXPECT_EQ(nlohmann::json::parse(Status().body)["code"], 50);
}

}  // namespace
}  // namespace berth::agent
