// SPDX-License-Identifier: Apache-2.0
// Tests Agent on an API server in memory: what other programs do to the agent's blocks.
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "crds/block.h"
#include "crds/pool.h"
#include "ipam/test_values.h"

namespace berth::agent {
namespace {

TEST_F(AgentTest, AnEntryThatSomebodyRemovedIsWrittenAgain) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const auto before = Held();
  const std::string name = api_.Objects(kBlocks)[0]["metadata"]["name"];
  Await([this] { return api_.CountOf(k8sclient::Method::kGet) > 0; }, "the agent watches");
  api_.Change(kBlocks, name, [](nlohmann::json& block) {
    block["allocations"] = nlohmann::json::object();
    block["used"] = 0;
  });
  Await([&] { return Held() == before; }, "the entry is there again");
}

// A read has shown that the patch of c2 landed; nothing was written since.
TEST_F(AgentTest, RestoresARemovedEntryWhosePatchLostItsAnswer) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  FailPatches({ApiFault::kLostAfterCommit});
  ASSERT_TRUE(Add("c2").ok);
  const auto before = Held();
  ASSERT_EQ(before.size(), 2U);
  const std::string name = api_.Objects(kBlocks)[0]["metadata"]["name"];
  api_.Change(kBlocks, name, [](nlohmann::json& block) {
    block["allocations"] = nlohmann::json::object();
    block["used"] = 0;
  });
  Await([&] { return Held() == before; }, "both entries are there again");
}

TEST_F(AgentTest, DoesNotRestoreAnEntryThatTheControllerFreed) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const auto block = api_.Objects(kBlocks)[0];
  const std::string offset = block["allocations"].begin().key();
  const std::string attachment(ipam::AttachmentOf(block["allocations"][offset].get<std::string>()));
  api_.Change(kBlocks, block["metadata"]["name"], [&](nlohmann::json& changed) {
    changed["allocations"][offset] = "~ t=1 f=" + attachment;
  });
  Await([&] { return agent_->DebugBlocks().find("web") == std::string::npos && Held().empty(); },
        "the cooled entry is swept");
}

TEST_F(AgentTest, ALateEventOfAnEarlierBlockOfThatNameChangesNothing) {
  PutPool("p1", "10.55.0.0/26", "Node");
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  Await([&] { return Held().empty(); }, "the DEL is written");
  watched_.Hold("DELETED");
  RemoveBlock(api_.Objects(kBlocks)[0]["metadata"]["name"]);
  ASSERT_TRUE(Add("c2").ok);
  watched_.Hold("");
  Await([&] { return api_.CountOf(k8sclient::Method::kPost) == 2; }, "the block was claimed again");
  ASSERT_TRUE(Del("c2").ok);
  Await([&] { return Held().empty(); }, "the DEL is written");
}

// docs/adr/0001: the agent reads the pool after it has created the block, whatever the watch of pools shows.
TEST_F(AgentTest, GivesNoReservedAddressOfABlockClaimedInAdvance) {
  PutPool("p1", "10.55.0.0/26", "Node");
  StartAgent();
  Await([&] { return agent_->IsReady(); }, "the agent is ready");
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 16; });
  watched_.Hold("withheld");
  api_.SetFaults([this](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPost) {
      api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) {
        pool["status"]["withheld"] = {"10.55.0.0-10.55.0.31"};
      });
    }
    return ApiFault::kNone;
  });
  Await([&] { return api_.Objects(kBlocks).size() == 1; }, "a block is claimed ahead");
  const std::string address = AddressIn(Add("c1"));
  watched_.Hold("");
  EXPECT_GE(std::stoi(address.substr(address.rfind('.') + 1)), 32) << address;
}

TEST_F(AgentTest, TheMetricsCountTheBlocksOfAPoolThatWereClaimedAhead) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok) << "during an ADD, which does not count";
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 64; });
  const auto counts = [&](const char* text) { return agent_->MetricsText().find(text) != std::string::npos; };
  Await([&] { return counts("\nberth_agent_claims_total{"); }, "a block is claimed ahead");
  EXPECT_TRUE(counts("\nberth_agent_claims_total{pool=\"p1\"} 1\n")) << agent_->MetricsText();
}

TEST_F(AgentTest, ForgetsABlockThatIsDeletedDuringAWrite) {
  PutPool("p1", "10.55.0.0/26", "Node");
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  Await([&] { return Held().empty(); }, "the DEL is written");
  RemoveBlock(api_.Objects(kBlocks)[0]["metadata"]["name"]);
  Await([&] { return nlohmann::json::parse(agent_->DebugBlocks())["blocks"].empty(); }, "the block is forgotten");
  EXPECT_TRUE(Add("c2").ok);
}

TEST_F(AgentTest, ACreationInDoubtIsNotSettledByWhatIsKnownOfAnEarlierBlockOfThatName) {
  PutPool("p1", "10.55.0.0/25", "Node");
  agent_ = MakeAgent(/*watches_blocks=*/false);
  agent_->Start();
  ASSERT_TRUE(Add("c1").ok);
  const std::string name = api_.Objects(kBlocks)[0]["metadata"]["name"];
  api_.Change(
      kBlocks, name, [](nlohmann::json& block) { block["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"; });
  ASSERT_TRUE(Del("c1").ok);
  Await([&] { return Held().empty(); }, "the DEL is written");
  RemoveBlock(name);
  api_.SetFaults([lost = std::make_shared<std::atomic<bool>>(false)](const k8sclient::Request& request) {
    const bool is_first = request.method == k8sclient::Method::kPost && !lost->exchange(true);
    return is_first ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  ASSERT_TRUE(Add("c2").ok);
  EXPECT_EQ(Held().size(), 1U);
}

// The controller deleted the empty block, and another node claimed it. No watch has shown this.
class MovedBlockTest : public AgentTest {
 protected:
  void MoveBlock(const std::string& agent_field) {
    PutPool("p1", "10.55.0.0/25", "Node");
    agent_ = MakeAgent(/*watches_blocks=*/false);
    agent_->Start();
    ASSERT_TRUE(Add("c1").ok);
    ASSERT_TRUE(Del("c1").ok);
    Await([&] { return Held().empty(); }, "the DEL is written");
    nlohmann::json block = api_.Objects(kBlocks)[0];
    const std::string name = block["metadata"]["name"];
    RemoveBlock(name);
    block["metadata"] = {{"name", name}, {"uid", "of-n2"}, {"finalizers", {ipam::kBlockFinalizer}}};
    block["spec"]["node"] = "n2";
    block["agent"] = agent_field;
    api_.Put(kBlocks, block);
  }
};

TEST_F(MovedBlockTest, TheAgentOfAnotherNodeDoesNotReplaceThisAgent) {
  MoveBlock("aaaaaaaaaaaa.1");
  EXPECT_TRUE(Add("c2").ok);
  EXPECT_EQ(replaced_.load(), 0);
}

TEST_F(MovedBlockTest, AnotherNodesBlockIsNotWritten) {
  MoveBlock("");
  ASSERT_TRUE(Add("c2").ok);
  for (const nlohmann::json& block : api_.Objects(kBlocks)) {
    if (block["spec"]["node"] == "n2") {
      EXPECT_TRUE(block["allocations"].empty()) << block.dump();
    }
  }
}

TEST_F(AgentTest, DoesNotRestoreEntriesThatAGcRemovedWithALostAnswer) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Add("c2").ok);
  std::atomic<int> patches = 0;
  api_.SetFaults([&patches](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch && ++patches == 1) return ApiFault::kLostAfterCommit;
    return patches.load() > 0 ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  auto body = nlohmann::json::parse(Body("GC", "", "p1", node::BootTimeNow() + 1'000'000'000, /*timeout_s=*/2));
  body["config"]["cni.dev/valid-attachments"] = nlohmann::json::array();
  ASSERT_FALSE(agent_->Handle(body.dump()).ok);
  ASSERT_TRUE(Held().empty());
  api_.SetFaults(nullptr);
  ASSERT_TRUE(Add("c3").ok);
  EXPECT_EQ(Held().size(), 1U);
}

// Four changes wait behind a patch. The API server refuses the patch with all four, so the agent sends them in halves.
// One caller of the second half gives up meanwhile.
TEST_F(AgentTest, ACallThatGaveUpStaysInDoubtUntilItsHalfOfTheBatchEnds) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  int arrived = 0;
  std::latch has_gathered(1);
  std::atomic<int> patches = 0;
  std::latch first_half_may_end(1);
  std::latch second_half_may_end(1);
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch) return ApiFault::kNone;
    const int number = ++patches;
    if (number == 1) has_gathered.wait();
    if (number == 3) first_half_may_end.wait();
    if (number == 4) second_half_may_end.wait();
    return number == 2 ? ApiFault::kInvalid : ApiFault::kNone;
  });
  // The calls are queued in this order: each call waits before the next one starts.
  std::vector<std::jthread> callers;
  callers.emplace_back([&] { EXPECT_TRUE(Add("filler").ok); });
  Await([&] { return patches.load() == 1; }, "the first patch is under way");
  std::atomic<bool> gave_up = false;
  const auto queue = [&](const std::string& container, int timeout_s) {
    callers.emplace_back([&, container, timeout_s] {
      const bool ok = agent_->Handle(Body("ADD", container, "p1", node::BootTimeNow(), timeout_s)).ok;
      if (container == "short") gave_up = !ok;
    });
    const std::string waiting = "berth_agent_calls_waiting " + std::to_string(++arrived + 1);
    Await([&] { return agent_->MetricsText().find(waiting) != std::string::npos; }, "the call waits");
  };
  queue("h1", 60);
  queue("h2", 60);
  queue("short", 5);
  queue("h4", 60);
  has_gathered.count_down();
  Await([&] { return gave_up.load(); }, "the short call gives up");
  first_half_may_end.count_down();
  Await([&] { return patches.load() == 4; }, "the second half is under way");
  const Reply reply = agent_->Handle(Body("DEL", "short", "p1", node::BootTimeNow(), 1));
  second_half_may_end.count_down();
  callers.clear();
  ASSERT_TRUE(reply.ok);
  Await([&] { return Held().size() == 5; }, "c0, the filler and three of four");
}

TEST_F(AgentTest, AllCallsThatFindAPoolExhaustedWaitForTheOneLookForNewBlocks) {
  PutPool("p1", "10.55.0.0/27", "Node", 27);
  const auto put_block = [this](const std::string& node) {
    api_.Put(
        kBlocks,
        {{"apiVersion", "ipam.berth.dev/v1alpha1"},
         {"kind", "IPBlock"},
         {"metadata", {{"name", "10.55.0.0-27"}, {"uid", "u-" + node}, {"generation", 1}}},
         {"spec",
          {{"space", "default"}, {"pool", "p1"}, {"poolUID", "uid-of-p1"}, {"cidr", "10.55.0.0/27"}, {"node", node}}},
         {"used", 0},
         {"free", 30},
         {"allocations", nlohmann::json::object()}});
  };
  put_block("n2");
  agent_ = MakeAgentOf(watched_, {.watches_blocks = false, .list_wait_max = std::chrono::minutes(1)});
  agent_->Start();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  constexpr int kCalls = 8;
  std::atomic<int> answered = 0;
  std::atomic<bool> was_looked = false;
  api_.SetFaults([&](const k8sclient::Request& request) {
    const bool is_look =
        request.method == k8sclient::Method::kGet && request.path == kBlocks &&
        std::ranges::any_of(request.query, [](const auto& pair) { return pair.second == "spec.node=n1"; });
    if (!is_look || was_looked.exchange(true)) return ApiFault::kNone;
    // No call may be answered before the LIST.
    const std::string all_wait = "berth_agent_calls_waiting " + std::to_string(kCalls);
    Await([&] { return answered > 0 || agent_->MetricsText().contains(all_wait); }, "all calls wait");
    put_block("n1");
    return ApiFault::kNone;
  });
  std::latch begin(kCalls);
  std::vector<std::jthread> calls;
  std::atomic<int> succeeded = 0;
  for (int i = 0; i < kCalls; ++i) {
    calls.emplace_back([&, i] {
      begin.arrive_and_wait();
      succeeded += Add("c" + std::to_string(i)).ok ? 1 : 0;
      ++answered;
    });
  }
  calls.clear();
  EXPECT_EQ(succeeded, kCalls);
}

TEST_F(AgentTest, AnAddThatMeetsAFullSharedPoolListsItsBlocksTwice) {
  PutPool("four-blocks", "10.77.0.0/28", "Shared", 30);
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  int filled = 0;
  while (Add("filler-" + std::to_string(filled), "four-blocks").ok) ++filled;
  ASSERT_EQ(filled, 14);
  // The next agent does not know that all blocks are claimed.
  agent_.reset();
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the next agent is ready");
  constexpr int kCalls = 16;
  std::atomic<int> lists = 0;
  api_.SetFaults([&lists](const k8sclient::Request& request) {
    lists += IsListOfSharedBlocks(request) ? 1 : 0;
    return ApiFault::kNone;
  });
  std::latch begin(kCalls);
  std::vector<std::jthread> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.emplace_back([this, &begin, i] {
      begin.arrive_and_wait();
      EXPECT_FALSE(Add("c" + std::to_string(i), "four-blocks").ok);
    });
  }
  calls.clear();
  EXPECT_LE(lists, 2 * kCalls);
}

TEST_F(AgentTest, ClaimsAFirstBlockOfACountedPoolWithoutWarmAddresses) {
  PutPool("p1", "10.55.0.0/26", "Node");
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["resource"] = "ipv4"; });
  StartAgent();
  Await([&] { return api_.Objects(kBlocks).size() == 1; }, "a block is claimed");
}

// The controller has created the block for pods that wait, so the Node's address count has risen.
TEST_F(AgentTest, TakesOverABlockThatTheNodesAddressCountShows) {
  PutPool("p1", "10.55.0.0/25", "Node");
  const auto put_node = [this](const char* number) {
    api_.Put("/api/v1/nodes",
             {{"metadata", {{"name", "n1"}}}, {"status", {{"allocatable", {{"ipam.berth.dev/ipv4", number}}}}}});
  };
  put_node("0");
  StartAgent();
  Await([&] { return agent_->IsReady(); }, "the agent is ready");
  const auto pool = crds::ParsePool(api_.Objects(std::string(crds::kPoolsPath))[0]);
  api_.Put(std::string(crds::kBlocksPath),
           crds::BlockToJson(ipam::NewBlock(*pool, ipam::PrefixOf("10.55.0.64/26"), "n1")));
  api_.Change(
      "/api/v1/nodes", "n1", [](nlohmann::json& node) { node["status"]["allocatable"]["ipam.berth.dev/ipv4"] = "62"; });
  Await([&] { return !nlohmann::json::parse(agent_->DebugBlocks())["blocks"].empty(); }, "the block is taken over");
}

}  // namespace
}  // namespace berth::agent
