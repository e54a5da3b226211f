// SPDX-License-Identifier: Apache-2.0
// Tests quarantined blocks: a block that the agent cannot parse or write stops nothing else on its node.
#include "agent/quarantine.h"

#include <atomic>
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/agent_test_setup.h"
#include "agent/disk_test_setup.h"
#include "agent/own_blocks_test_setup.h"
#include "cni/attachment.h"
#include "node/node_directory.h"

namespace berth::agent {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class QuarantineTest : public AgentTest {
 protected:
  void MakeUnreadable(const std::string& block) {
    ASSERT_TRUE(
        api_.Change(std::string(crds::kBlocksPath), block, [](json& object) { object["used"] = "not a number"; }));
  }
  void MakeReadable(const std::string& block) {
    api_.Change(
        std::string(crds::kBlocksPath), block, [](json& object) { object["used"] = object["allocations"].size(); });
  }
  // Starts an agent that hands out addresses on standby of the pool.
  void StartHandingOut(const std::string& pool) {
    agent_ = MakeAgentOf(watched_, {.standby = 4});
    agent_->Start();
    ASSERT_TRUE(Add("a", pool).ok);
    ASSERT_TRUE(api_.Objects(std::string(crds::kBlocksPath)).front().contains("standby"));
  }
  // Starts an agent that cannot parse its only block, in which the container has an address.
  std::string StartBesideUnreadable(const std::string& container) {
    StartAgent();
    EXPECT_TRUE(Add(container).ok);
    const std::string block = BlockName();
    agent_.reset();
    MakeUnreadable(block);
    StartAgent();
    return block;
  }
  // Returns the name of the only block.
  [[nodiscard]] std::string BlockName() const {
    const auto blocks = api_.Objects(std::string(crds::kBlocksPath));
    return blocks.empty() ? "none" : blocks.front()["metadata"]["name"].get<std::string>();
  }
};

TEST_F(QuarantineTest, AnUnreadableBlockDoesNotKeepTheAgentFromStarting) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  const std::string block = BlockName();
  agent_.reset();
  MakeUnreadable(block);
  const json before = api_.Objects(std::string(crds::kBlocksPath)).front();
  StartAgent();
  const Reply reply = Add("b");
  EXPECT_TRUE(reply.ok) << reply.body;
  EXPECT_EQ(api_.Objects(std::string(crds::kBlocksPath)).size(), 2U) << "from another block";
  for (const json& object : api_.Objects(std::string(crds::kBlocksPath))) {
    const bool is_that = object["metadata"]["name"] == block;
    EXPECT_TRUE(!is_that || object == before) << "left alone: " << object;
  }
}

TEST_F(QuarantineTest, ACheckOfAnAddressInAQuarantinedBlockAsksToTryAgain) {
  StartAgent();
  const std::string added = Add("a").body;
  json check = json::parse(Body("CHECK", "a"));
  check["config"]["prevResult"] = json::parse(added);
  const std::string block = BlockName();
  agent_.reset();
  MakeUnreadable(block);
  StartAgent();
  EXPECT_THAT(agent_->Handle(check.dump()).body, HasSubstr("\"code\":11,"));
}

TEST_F(QuarantineTest, AnUnreadableSharedBlockDoesNotStopOthers) {
  PutPool("shared", "10.66.0.0/24", "Shared");
  StartAgent();
  ASSERT_TRUE(Add("a", "shared").ok);
  MakeUnreadable(BlockName());
  // A DEL waits as long as the ADD's reply exists.
  EXPECT_TRUE(Add("b", "shared").ok);
  EXPECT_TRUE(Del("b").ok);
}

TEST_F(QuarantineTest, ABlockThatBecomesUnreadableUnderTheAgentStopsNoAdd) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  MakeUnreadable(BlockName());
  const Reply reply = Add("b");
  EXPECT_TRUE(reply.ok) << reply.body;
}

TEST_F(QuarantineTest, AnnotationsAndFinalizersOfOthersAreNoReason) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  const std::string first = BlockName();
  agent_.reset();
  api_.Change(std::string(crds::kBlocksPath), first, [](json& block) {
    for (int i = 0; i < 4097; ++i) block["metadata"]["annotations"]["a" + std::to_string(i)] = "x";
    for (int i = 0; i < 257; ++i) block["metadata"]["finalizers"].push_back("example.org/f" + std::to_string(i));
  });
  StartAgent();
  ASSERT_TRUE(Add("b").ok);
  EXPECT_EQ(BlockName(), first);
  EXPECT_EQ(Held().size(), 2U) << "from the same block";
}

TEST_F(QuarantineTest, ABlockThatCannotBeWrittenDoesNotKeepTheAgentFromStarting) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  const std::string block = BlockName();
  agent_.reset();
  api_.SetFaults([block](const k8sclient::Request& request) {
    const bool is_write = request.method == k8sclient::Method::kPatch && request.path.ends_with(block);
    return is_write ? k8sclient::testing::ApiFault::kInvalid : k8sclient::testing::ApiFault::kNone;
  });
  StartAgent();
  const Reply reply = Add("b");
  EXPECT_TRUE(reply.ok) << reply.body;
}

TEST_F(QuarantineTest, AnAddThatComesAgainIsToldNoOtherAddressThanABlockHolds) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  agent_.reset();
  FailPatches(std::vector(1000, ApiFault::kInvalid));
  StartAgent();
  EXPECT_THAT(Add("a").body, HasSubstr("\"code\":11,"));
  EXPECT_EQ(Held().size(), 1U);
}

TEST_F(QuarantineTest, AnAddThatComesAgainGetsNoSecondAddressWhileItsBlockIsUnreadable) {
  const std::string block = StartBesideUnreadable("a");
  EXPECT_THAT(Add("a").body, HasSubstr("\"code\":11,"));
  EXPECT_EQ(Held().size(), 1U);
  MakeReadable(block);
  Await([this] { return Add("a").ok; }, "the ADD succeeds once the block can be read");
  EXPECT_EQ(Held().size(), 1U);
}

// The write of an earlier agent lands after this agent has listed the block.
TEST_F(QuarantineTest, AnAddThatComesAgainSeesWhatLandedAfterTheAgentStarted) {
  const std::string block = StartBesideUnreadable("a");
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  const std::string attachment = cni::MakeAttachment("net", "b", "eth0");
  ASSERT_TRUE(api_.Change(kBlocks, block, [&attachment](json& object) {
    std::string entry = object["allocations"].front();
    const std::string first = cni::MakeAttachment("net", "a", "eth0");
    object["allocations"]["9"] = entry.replace(entry.find(first), first.size(), attachment);
  }));
  EXPECT_THAT(Add("b").body, HasSubstr("\"code\":11,"));
  ASSERT_TRUE(Del("b").ok);
  MakeReadable(block);
  Await([this] { return Held().size() == 1; }, "the DEL is written");
}

TEST_F(QuarantineTest, AnAddThatComesAgainIsToldNoOtherAddressThanWasHandedOut) {
  StartHandingOut("p1");
  const std::string block = BlockName();
  FailPatches(std::vector(1000, ApiFault::kUnavailable));
  ASSERT_TRUE(Add("b").ok);
  agent_.reset();
  api_.SetFaults({});
  MakeUnreadable(block);
  agent_ = MakeAgentOf(watched_, {.standby = 4});
  agent_->Start();
  EXPECT_THAT(Add("b").body, HasSubstr("\"code\":11,"));
}

// The address was answered, and its entry was never written: only the note says which pod has it.
TEST_F(QuarantineTest, KeepsTheNoteOfAnAddressOfAnUnreadableBlock) {
  StartHandingOut("p1");
  const std::string block = BlockName();
  FailPatches(std::vector(1000, ApiFault::kUnavailable));
  const std::string handed_out = AddressIn(Add("b"));
  ASSERT_FALSE(handed_out.starts_with("error")) << handed_out;
  agent_.reset();
  api_.SetFaults({});
  MakeUnreadable(block);
  agent_ = MakeAgentOf(watched_, {.standby = 4});
  agent_->Start();
  ASSERT_TRUE(Add("c").ok);
  agent_.reset();
  MakeReadable(block);
  agent_ = MakeAgentOf(watched_, {.standby = 4});
  agent_->Start();
  for (const char* container : {"d", "e", "f"}) {
    const Reply reply = Add(container);
    ASSERT_TRUE(reply.ok) << reply.body;
    EXPECT_NE(AddressIn(reply), handed_out) << "two pods with one address";
  }
  Await([this] { return Held().size() == 6; }, "all six are recorded");
}

// The block can be parsed again before the agent looks, and an ADD finds the block first.
TEST_F(QuarantineTest, AnAddThatFindsTheBlockGoodDoesNotGiveItsNotedAddress) {
  PutPool("one", "10.99.0.0/28", "Node", 28);
  StartHandingOut("one");
  const std::string block = BlockName();
  FailPatches(std::vector(1000, ApiFault::kUnavailable));
  const std::string handed_out = AddressIn(Add("b", "one"));
  ASSERT_FALSE(handed_out.starts_with("error")) << handed_out;
  agent_.reset();
  api_.SetFaults({});
  MakeUnreadable(block);
  agent_ = MakeAgentOf(watched_, {.standby = 4});
  agent_->Start();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  MakeReadable(block);
  for (int i = 0; i < 12; ++i) {
    const Reply reply = Add("c" + std::to_string(i), "one");
    EXPECT_NE(AddressIn(reply), handed_out) << "two pods with one address";
  }
}

TEST_F(QuarantineTest, AWriteThatIsOpenInABlockThatCannotBeWrittenDoesNotKeepTheAgentFromStarting) {
  StartAgent();
  ASSERT_TRUE(Add("a", "shared").ok);
  FailPatches(std::vector(1000, ApiFault::kLateCommit));
  ASSERT_FALSE(agent_->Handle(Body("ADD", "b", "shared", node::BootTimeNow(), 1)).ok);
  agent_.reset();
  FailPatches(std::vector(1000, ApiFault::kInvalid));
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
}

TEST_F(QuarantineTest, ABlockThatIsRefusedUnderTheAgentStopsNoAddWhileAnotherHasRoom) {
  PutPool("two", "10.99.0.0/28", "Node", 29);
  StartAgent();
  while (api_.Objects(std::string(crds::kBlocksPath)).size() < 2) {
    ASSERT_TRUE(Add("c" + std::to_string(Held().size()), "two").ok);
  }
  std::string full;
  for (const json& block : api_.Objects(std::string(crds::kBlocksPath))) {
    if (block["allocations"].size() > 1) full = block["metadata"]["name"];
  }
  ASSERT_TRUE(Del("c0").ok);
  Await([held = Held().size(), this] { return Held().size() < held; }, "it has room again");
  api_.SetFaults([full](const k8sclient::Request& request) {
    const bool is_its = request.method == k8sclient::Method::kPatch && request.path.ends_with(full);
    return is_its ? ApiFault::kInvalid : ApiFault::kNone;
  });
  for (const char* const container : {"x", "y"}) {
    const Reply reply = Add(container, "two");
    EXPECT_TRUE(reply.ok) << reply.body;
  }
  EXPECT_EQ(api_.Objects(std::string(crds::kBlocksPath)).size(), 2U) << "and costs no block";
}

TEST_F(QuarantineTest, WritesADelOnceItsUnwritableBlockCanBeWritten) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  agent_.reset();
  FailPatches(std::vector(1000, ApiFault::kInvalid));
  StartAgent();
  ASSERT_TRUE(Del("a").ok);
  ASSERT_EQ(Held().size(), 1U);
  api_.SetFaults({});
  Await([this] { return Held().empty(); }, "the DEL is written");
}

TEST_F(QuarantineTest, ADelThatWaitsForABlockIsNotForgottenByAnAddOfItsName) {
  const std::string block = StartBesideUnreadable("a");
  ASSERT_TRUE(Del("a").ok);
  EXPECT_THAT(Add("a").body, HasSubstr("\"code\":11,"));
  MakeReadable(block);
  Await([this] { return Held().empty(); }, "the DEL is written");
}

TEST_F(QuarantineTest, WritesADelOnceItsUnreadableBlockCanBeRead) {
  const std::string block = StartBesideUnreadable("a");
  ASSERT_TRUE(Del("a").ok);
  MakeReadable(block);
  Await([this] { return Held().empty(); }, "the DEL is written");
}

// Otherwise the journal would grow as long as the block is quarantined.
TEST_F(QuarantineTest, DoesNotKeepADelThatTheQuarantinedBlockDoesNotName) {
  static_cast<void>(StartBesideUnreadable("a"));
  ASSERT_TRUE(Add("b").ok);
  ASSERT_TRUE(Del("b").ok);
  ASSERT_TRUE(Del("never-seen").ok);
  const auto pending = [this] {
    return agent_->MetricsText().find("berth_agent_journal_pending 0\n") != std::string::npos;
  };
  Await(pending, "no DEL waits");
  ASSERT_TRUE(Del("a").ok);
  EXPECT_FALSE(pending()) << "this one waits for the block";
}

// The attachment has entries in two blocks, for example because another program copied one. The DEL is written to the
// block that the agent can write, and waits for the other block.
TEST_F(QuarantineTest, ADelThatWaitsForABlockIsSyncedToDiskEvenIfAnotherBlockWasWritten) {
  PutPool("p2", "10.56.0.0/24", "Node");
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  const std::string first = BlockName();
  const json entry = api_.Objects(kBlocks).front()["allocations"].front();
  ASSERT_TRUE(Add("b", "p2").ok);
  agent_.reset();
  for (const json& object : api_.Objects(kBlocks)) {
    const std::string name = object["metadata"]["name"];
    if (name == first) continue;
    api_.Change(kBlocks, name, [&entry](json& block) {
      block["allocations"][block["allocations"].contains("40") ? "41" : "40"] = entry;
      block["used"] = block["allocations"].size();
    });
  }
  MakeUnreadable(first);
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  ASSERT_EQ(Held().size(), 3U);
  const int syncs = TestDisk::syncs;
  ASSERT_TRUE(Del("a").ok);
  EXPECT_GT(TestDisk::syncs, syncs);
  TestDisk::syncs_fail = true;
  EXPECT_FALSE(Del("a").ok) << "a repeated DEL waits for a sync, too, because the sync of the first may have failed";
  TestDisk::syncs_fail = false;
  Await([this] { return Held().size() == 2; }, "the DEL is written to the block that can be written");
}

TEST_F(QuarantineTest, ADelThatWaitsForABlockSurvivesARestart) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  agent_.reset();
  FailPatches(std::vector(1000, ApiFault::kInvalid));
  StartAgent();
  ASSERT_TRUE(Del("a").ok);
  agent_.reset();
  api_.SetFaults({});
  StartAgent();
  Await([this] { return Held().empty(); }, "the DEL is written");
}

TEST_F(QuarantineTest, FreesAddressesOfOtherBlocksMeanwhile) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  const std::string block = BlockName();
  agent_.reset();
  MakeUnreadable(block);
  StartAgent();
  ASSERT_TRUE(Add("b").ok);
  ASSERT_TRUE(Del("b").ok);
  Await([this] { return Held().size() == 1; }, "only what the unreadable block holds is left");
}

TEST_F(QuarantineTest, AQuarantinedBlockStopsARetirement) {
  StartAgent();
  ASSERT_TRUE(Add("a").ok);
  const std::string block = BlockName();
  agent_.reset();
  MakeUnreadable(block);
  agent_ = MakeAgent();
  const auto retired = agent_->Retire(std::chrono::milliseconds(1));
  ASSERT_FALSE(retired.has_value());
  EXPECT_THAT(retired.error().message, HasSubstr(block));
}

using QuarantineRetryTest = OwnBlocksTest;

TEST_F(QuarantineRetryTest, TriesAgainEvery30SecondsAtTheLatest) {
  MakeBlock();
  ASSERT_TRUE(api_.Change(kBlocks, kName, [](json& object) { object["used"] = "not a number"; }));
  ASSERT_TRUE(directory_.BecomeNodeOwner(own_.instance()).has_value());
  std::atomic<int> reads = 0;
  api_.SetFaults([&reads](const k8sclient::Request& /*request*/) {
    ++reads;
    return ApiFault::kNone;
  });
  Quarantine quarantine(api_, own_, directory_, clock_);
  quarantine.Set({{kName, "text"}});
  const auto reads_in = [&](std::chrono::seconds time) {
    const int before = reads;
    const auto end = clock_.Now() + time;
    while (clock_.Now() < end) {
      quarantine.TryAgain();
      clock_.Advance(std::chrono::seconds(1));
    }
    return reads - before;
  };
  EXPECT_EQ(reads_in(std::chrono::seconds(3)), 2) << "at once, and after a second";
  reads_in(std::chrono::minutes(10));
  EXPECT_EQ(reads_in(std::chrono::minutes(1)), 2);
}

}  // namespace
}  // namespace berth::agent
