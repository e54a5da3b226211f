// SPDX-License-Identifier: Apache-2.0
// Tests Agent on an API server in memory: agents of one node, one after another and two at once.
#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "agent/disk_test_setup.h"

namespace berth::agent {
namespace {

TEST_F(AgentTest, ARestartKeepsEveryAddress) {
  StartAgent();
  const std::string address = AddressIn(Add("c1"));
  agent_.reset();
  StartAgent();
  EXPECT_EQ(AddressIn(Add("c1")), address);
}

TEST_F(AgentTest, AWriteOfItsPredecessorCannotLandAfterItIsReady) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  // The earlier agent's last write is still on its way when its process ends.
  api_.SetFaults([](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch) return ApiFault::kLateCommit;
    return request.method == k8sclient::Method::kGet ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_FALSE(agent_->Handle(Body("ADD", "c2", "p1", node::BootTimeNow(), 1)).ok);
  agent_.reset();
  api_.SetFaults(nullptr);
  StartAgent();
  ASSERT_TRUE(Del("c2").ok);
  api_.ReleaseLateWrites();
  EXPECT_EQ(Held().size(), 1U);
}

TEST_F(AgentTest, AnAgentThatStartsOnAFullDiskServesItsNode) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  agent_.reset();
  TestDisk::is_full = true;
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  EXPECT_TRUE(Add("c2").ok);
  const Reply reply = Del("c1");
  EXPECT_TRUE(reply.ok) << reply.body;
  EXPECT_EQ(Held().size(), 1U);
  TestDisk::is_full = false;
}

TEST_F(AgentTest, TheOlderOfTwoAgentsStops) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const auto newer = MakeAgent();
  newer->Start();
  Await([&] { return newer->IsReady(); }, "the newer agent is ready");
  Await([&] { return replaced_.load() == 1; }, "the older agent ends");
  EXPECT_FALSE(Add("c2").ok);
}

// The older agent's line would be lost, because the newer agent has already read the journal.
TEST_F(AgentTest, TheOlderOfTwoAgentsAddsNothingToTheJournal) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  const auto newer = MakeAgent();
  newer->Start();
  Await([&] { return !Del("c1").ok; }, "the newer agent has taken over");
}

TEST_F(AgentTest, TheNewerAgentKnowsTheAddressesThatTheOlderAgentGave) {
  StartAgent();
  const std::string address = AddressIn(Add("c1"));
  const auto newer = MakeAgent();
  newer->Start();
  EXPECT_EQ(AddressIn(newer->Handle(Body("ADD", "c1"))), address);
}

// The older agent could not load its blocks, so it knows no block when the newer agent comes.
TEST_F(AgentTest, AnOlderAgentThatHasNotLoadedEndsAndJournalsNothing) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  agent_.reset();
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  StartAgent();
  Await([&] { return Del("c1").ok; }, "the older agent has taken over");
  const auto newer = MakeAgent();
  newer->Start();
  Await([&] { return replaced_.load() == 1; }, "the older agent ends");
  EXPECT_FALSE(Del("c1").ok);
}

TEST_F(AgentTest, OfTwoAgentsThatBothLoadLateTheNewerStays) {
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  StartAgent();
  Await([&] { return agent_->Handle(Body("DEL", "c1", "p1", node::BootTimeNow(), 1)).ok; }, "the older one is there");
  const auto newer = MakeAgent();
  newer->Start();
  Await([&] { return newer->Handle(Body("DEL", "c1", "p1", node::BootTimeNow(), 1)).ok; }, "the newer one is there");
  api_.SetFaults(nullptr);
  Await([&] { return newer->IsReady() && replaced_.load() == 1; }, "the newer is ready and the older ends");
  EXPECT_TRUE(newer->Handle(Body("ADD", "c2")).ok);
  EXPECT_FALSE(Add("c3").ok);
}

TEST_F(AgentTest, TwoMachinesWithOneNodeNameBothReportEachOther) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const auto other = MakeAgentOf(watched_, {.machine = "2"});
  other->Start();
  int number = 1;
  const auto is_told = [&number](Agent& agent) {
    const Reply reply = agent.Handle(Body("ADD", "c" + std::to_string(++number)));
    return !reply.ok && reply.body.find("both write block") != std::string::npos;
  };
  Await([&] { return is_told(*agent_); }, "the first says so");
  Await([&] { return is_told(*other); }, "the other says so");
  EXPECT_EQ(replaced_, 0);
}

TEST_F(AgentTest, AnAgentFieldWrittenByHandDoesNotEndTheAgent) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const std::string block = api_.Objects(kBlocks)[0]["metadata"]["name"];
  ASSERT_TRUE(api_.Change(kBlocks, block, [](nlohmann::json& object) { object["agent"] = "x.1"; }));
  Await([this] { return api_.Objects(kBlocks)[0]["agent"] != "x.1"; }, "the agent writes it again");
  EXPECT_TRUE(Add("c2").ok);
  EXPECT_EQ(replaced_, 0);
}

TEST_F(AgentTest, AReplacedAgentWithoutBlocksEnds) {
  StartAgent();
  Await([&] { return agent_->IsReady(); }, "the older agent is ready");
  const auto newer = MakeAgent();
  newer->Start();
  Await([&] { return replaced_.load() == 1; }, "the older agent ends");
  Await([&] { return newer->IsReady(); }, "the newer agent is ready");
}

TEST_F(AgentTest, AnAgentThatNeverServesTakesNothingFromTheOneThatDoes) {
  StartAgent();
  Await([&] { return agent_->IsReady(); }, "the agent is ready");
  MakeAgent().reset();
  EXPECT_TRUE(Add("c1").ok);
}

}  // namespace
}  // namespace berth::agent
