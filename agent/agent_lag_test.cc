// SPDX-License-Identifier: Apache-2.0
// Tests Agent with late or old answers: watches and caches that lag, and restored backups.
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "cni/attachment.h"

namespace berth::agent {
namespace {

using k8sclient::Method;
using nlohmann::json;

const std::string kPools(crds::kPoolsPath);

class AgentLagTest : public AgentTest {
 protected:
  void SetUp() override { PutPool("tiny", "10.77.0.0/24", "Node", 30); }
  void RemovePool() {
    ASSERT_TRUE(api_.Call({.method = Method::kDelete, .path = kPools + "/tiny"}, {})->ok());
    ASSERT_EQ(api_.Objects(kPools).size(), 2U);
  }
  // Adds until an ADD fails. Returns how many ADDs succeeded.
  int AddUntilOneFails() {
    int count = 0;
    while (count < 8 && Add("c" + std::to_string(count), "tiny").ok) ++count;
    return count;
  }
  [[nodiscard]] bool IsWritten(const std::string& container) const {
    const std::string attachment = cni::MakeAttachment("net", container, "eth0");
    for (const json& block : api_.Objects(kBlocks)) {
      if (block["allocations"].dump().find(attachment) != std::string::npos) return true;
    }
    return false;
  }
};

TEST_F(AgentLagTest, TakesNoAddressOfADeletedPoolWhileItsWatchIsLate) {
  StartAgent();
  ASSERT_TRUE(Add("first", "tiny").ok);
  watched_.Hold("uid-of-tiny");
  RemovePool();
  ASSERT_LT(AddUntilOneFails(), 8) << "the next block is not to be had";
  for (int i = 10; i < 13; ++i) EXPECT_FALSE(Add("c" + std::to_string(i), "tiny").ok) << "from a block of a pool gone";
  watched_.Hold("");
}

// n1 claims a block of the pool, finds that the pool is gone, and leaves the block empty. n2's knowledge of the pool is
// older than the block.
TEST_F(AgentLagTest, TakesNoAddressOfASharedBlockYoungerThanTheReadOfItsPool) {
  PutPool("sh", "10.88.0.0/28", "Shared", 30);
  StartAgent();
  const auto second = MakeAgentOf(watched_, {.node = "n2", .machine = "b"});
  second->Start();
  ASSERT_TRUE(Add("a1", "sh").ok);
  ASSERT_TRUE(second->Handle(Body("ADD", "b1", "sh")).ok);
  ASSERT_TRUE(Del("a1").ok);
  ASSERT_TRUE(second->Handle(Body("DEL", "b1")).ok);
  watched_.Hold("uid-of-sh");
  for (const json& block : api_.Objects(kBlocks)) RemoveBlock(block["metadata"]["name"]);
  ASSERT_TRUE(api_.Call({.method = Method::kDelete, .path = kPools + "/sh"}, {})->ok());
  PutPool("new", "10.88.0.0/28", "Shared", 28);
  int given = 0;
  while (given < 15 && Add("n" + std::to_string(given), "new").ok) ++given;
  EXPECT_EQ(given, 14);
  EXPECT_FALSE(Add("a2", "sh").ok);
  EXPECT_EQ(api_.Objects(kBlocks).size(), 2U) << "n1 left none behind";
  const Reply other = second->Handle(Body("ADD", "b2", "sh"));
  EXPECT_FALSE(other.ok) << AddressIn(other) << " has two holders";
  watched_.Hold("");
}

TEST_F(AgentLagTest, TakesNoAddressOfABlockAfterTheReadOfItsPoolFailed) {
  StartAgent();
  ASSERT_TRUE(Add("first", "tiny").ok);
  ASSERT_TRUE(Del("first").ok);
  Await([this] { return !IsWritten("first"); }, "the DEL is written");
  watched_.Hold("uid-of-tiny");
  for (const json& block : api_.Objects(kBlocks)) RemoveBlock(block["metadata"]["name"]);
  RemovePool();
  api_.SetFaults([](const k8sclient::Request& request) {
    const bool is_get = request.method == Method::kGet && request.path.ends_with("/ippools/tiny");
    return is_get ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  for (const char* container : {"a", "b"}) EXPECT_FALSE(Add(container, "tiny").ok);
  api_.SetFaults(nullptr);
  EXPECT_FALSE(Add("c", "tiny").ok);
  watched_.Hold("");
}

// The answer to the POST is lost, the second POST meets the existing block, and the agent reads the block; only then
// the claim reads the pool.
TEST_F(AgentLagTest, TakesNoAddressOfABlockInDoubtBeforeItsPoolIsRead) {
  StartAgent();
  ASSERT_TRUE(Add("first", "tiny").ok);
  ASSERT_TRUE(Del("first").ok);
  Await([this] { return !IsWritten("first"); }, "the DEL is written");
  watched_.Hold("uid-of-tiny");
  for (const json& block : api_.Objects(kBlocks)) RemoveBlock(block["metadata"]["name"]);
  const auto knows_none = [this] { return json::parse(agent_->DebugBlocks())["blocks"].empty(); };
  Await(knows_none, "the agent has seen that its block is gone");
  RemovePool();
  std::atomic<bool> is_lost = false;
  std::atomic<bool> is_asked = false;
  bool is_given = false;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method == Method::kPost && request.path == kBlocks && !is_lost.exchange(true))
      return ApiFault::kLostAfterCommit;
    const bool is_get = request.method == Method::kGet && request.path.ends_with("/ippools/tiny");
    const auto add_b = [&] { is_given = agent_->Handle(Body("ADD", "b", "tiny", node::BootTimeNow(), 3)).ok; };
    if (is_get && !is_asked.exchange(true)) std::jthread(add_b).join();
    return ApiFault::kNone;
  });
  EXPECT_FALSE(Add("a", "tiny").ok);
  api_.SetFaults(nullptr);
  EXPECT_TRUE(is_asked);
  EXPECT_FALSE(is_given);
  watched_.Hold("");
}

// A tenant's annotation may name many pools.
TEST_F(AgentLagTest, AnAddThatNamesManyUnknownPoolsReadsOne) {
  StartAgent();
  ASSERT_TRUE(Add("first").ok);
  json call = json::parse(Body("ADD", "c1"));
  call["config"]["ipam"]["pools"] = json::array();
  for (int i = 0; i < 64; ++i) call["config"]["ipam"]["pools"].push_back("unknown-" + std::to_string(i));
  std::atomic<int> asked = 0;
  api_.SetFaults([&asked](const k8sclient::Request& request) {
    if (request.path.find("/ippools/unknown-") != std::string::npos) ++asked;
    return ApiFault::kNone;
  });
  const Reply reply = agent_->Handle(call.dump());
  EXPECT_FALSE(reply.ok);
  EXPECT_NE(reply.body.find("pool unknown-0 does not exist"), std::string::npos) << reply.body;
  EXPECT_EQ(asked, 1);
  api_.SetFaults(nullptr);
}

TEST_F(AgentLagTest, GivesAddressesOfARecreatedPoolWhileItsWatchIsLate) {
  StartAgent();
  ASSERT_TRUE(Add("first", "tiny").ok);
  watched_.Hold("uid-of-tiny");
  RemovePool();
  ASSERT_LT(AddUntilOneFails(), 8);
  PutPool("tiny", "10.77.0.0/24", "Node", 30, "another-");
  EXPECT_TRUE(Add("again", "tiny").ok);
  watched_.Hold("");
}

TEST_F(AgentLagTest, GivesNoAddressOfAListedBlockBeforeItsPoolIsRead) {
  StartAgent();
  ASSERT_TRUE(Add("first", "tiny").ok);
  agent_.reset();
  api_.HoldCache();
  RemovePool();
  StartAgent();
  EXPECT_FALSE(Add("second", "tiny").ok);
}

TEST_F(AgentLagTest, AfterARestoredBackupEveryAnsweredAddIsRecordedAgain) {
  StartAgent();
  ASSERT_TRUE(Add("before").ok);
  const auto backup = api_.TakeBackup();
  std::multiset<std::string> addresses = {AddressIn(Add("before"))};
  for (int i = 0; i < 5; ++i) addresses.insert(AddressIn(Add("c" + std::to_string(i))));
  api_.Restore(*backup);
  Await([&] { return Add("after").ok; }, "the agent serves again");
  addresses.insert(AddressIn(Add("after")));
  EXPECT_EQ(std::set<std::string>(addresses.begin(), addresses.end()).size(), 7U);
  Await([this] { return IsWritten("c4") && IsWritten("after"); }, "all is recorded");
  EXPECT_EQ(Held().size(), 7U);
}

// Otherwise the entry of the address would name the earlier pod: the earlier pod's DEL would free the address, or the
// entry would stay forever if that DEL was answered before.
TEST_F(AgentLagTest, AfterARestoredBackupFreedAddressesAreFreeAgain) {
  StartAgent();
  ASSERT_TRUE(Add("before", "tiny").ok);
  const std::string freed = AddressIn(Add("gone", "tiny"));
  const auto backup = api_.TakeBackup();
  ASSERT_TRUE(Del("gone").ok);
  int takers = 0;
  while (AddressIn(Add("c" + std::to_string(takers), "tiny")) != freed) ASSERT_LT(++takers, 8) << "nobody gets it";
  api_.Restore(*backup);
  Await([&] { return Del("before").ok; }, "the agent writes the block");
  const auto is_right = [&] { return IsWritten("c" + std::to_string(takers)) && !IsWritten("gone"); };
  Await(is_right, "the address is recorded for the one that has it");
}

// The block was claimed after the backup was taken, and another node may have claimed it by now.
TEST_F(AgentLagTest, GivesUpABlockThatTheBackupLacks) {
  StartAgent();
  ASSERT_TRUE(Add("before").ok);
  const auto backup = api_.TakeBackup();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Add("c" + std::to_string(i), "tiny").ok);
  // This ADD makes the known block newer than the backup, so the next write finds that the API server went back. The
  // watch may not show it, because versions may have caught up.
  ASSERT_TRUE(Add("after").ok);
  api_.Restore(*backup);
  Await([&] { return Add("wakes").ok; }, "the agent serves again");
  const auto knows_none = [this] {
    return json::parse(agent_->DebugBlocks())["blocks"].dump().find("10.77.") == std::string::npos;
  };
  Await(knows_none, "the blocks that are gone are forgotten");
}

}  // namespace
}  // namespace berth::agent
