// SPDX-License-Identifier: Apache-2.0
// Tests Agent on an API server in memory: calls, faults and claims.
#include "agent/agent.h"

#include <latch>

#include "agent/agent_test_setup.h"
#include "k8sclient/testing/fake_clock.h"

namespace berth::agent {
namespace {

TEST_F(AgentTest, AddAnswersAnAddressOfThePool) {
  StartAgent();
  EXPECT_EQ(AddressIn(Add("c1")).substr(0, 8), "10.55.0.");
}

TEST_F(AgentTest, AddIsOneRequestOnceThereIsABlock) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const auto writes = [this] {
    return api_.CountOf(k8sclient::Method::kPatch) + api_.CountOf(k8sclient::Method::kPost);
  };
  const int written = writes();
  const int read = api_.CountOf(k8sclient::Method::kGet);
  ASSERT_TRUE(Add("c2").ok);
  EXPECT_EQ(writes() - written, 1);
  // The watch of the block that the first ADD created may list and read the block in between.
  EXPECT_LE(api_.CountOf(k8sclient::Method::kGet) - read, 2);
}

TEST_F(AgentTest, AddAgainAnswersTheSame) {
  StartAgent();
  const std::string first = AddressIn(Add("c1"));
  EXPECT_EQ(AddressIn(Add("c1")), first);
}

TEST_F(AgentTest, AddSaysWhetherItTookSomething) {
  StartAgent();
  EXPECT_TRUE(Add("c1").is_new);
  EXPECT_FALSE(Add("c1").is_new);
}

TEST_F(AgentTest, SharedPoolsWorkToo) {
  StartAgent();
  EXPECT_EQ(AddressIn(Add("c1", "shared")).substr(0, 8), "10.66.0.");
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(Held().empty());
}

TEST_F(AgentTest, TwoHundredAddsAtOnceGetTwoHundredAddresses) {
  StartAgent();
  std::vector<std::string> addresses(200);
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      callers.emplace_back([this, i, &addresses] { addresses[i] = AddressIn(Add("c" + std::to_string(i))); });
    }
  }
  EXPECT_EQ(std::set<std::string>(addresses.begin(), addresses.end()).size(), 200U);
  EXPECT_EQ(Held().size(), 200U);
}

TEST_F(AgentTest, AddsThatWaitForOnePatchShareTheNext) {
  StartAgent();
  ASSERT_TRUE(Add("first").ok);
  const int before = api_.CountOf(k8sclient::Method::kPatch);
  std::latch arrived(20);
  // The first patch waits until all other calls wait for it.
  api_.SetFaults([&arrived](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch) arrived.wait();
    return ApiFault::kNone;
  });
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 20; ++i) {
      callers.emplace_back([this, i, &arrived] {
        arrived.count_down();
        EXPECT_TRUE(Add("c" + std::to_string(i)).ok);
      });
    }
  }
  EXPECT_LE(api_.CountOf(k8sclient::Method::kPatch) - before, 10);
}

TEST_F(AgentTest, CallsOfOneNodeDoNotConflictInASharedBlock) {
  StartAgent();
  ASSERT_TRUE(Add("first", "shared").ok);
  const int before = api_.CountOf(k8sclient::Method::kPatch);
  constexpr int kCalls = 20;
  std::latch all_have_read(kCalls);
  api_.SetFaults([&all_have_read](const k8sclient::Request& request) {
    if (IsListOfSharedBlocks(request) && !all_have_read.try_wait()) all_have_read.count_down();
    if (request.method == k8sclient::Method::kPatch) all_have_read.wait();
    return ApiFault::kNone;
  });
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kCalls; ++i) {
      callers.emplace_back([this, i] { EXPECT_TRUE(Add("c" + std::to_string(i), "shared").ok); });
    }
  }
  EXPECT_EQ(api_.CountOf(k8sclient::Method::kPatch) - before, kCalls);
}

TEST_F(AgentTest, ADrainEndsWithTheLastCall) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  std::latch is_sent(1);
  std::latch drains(1);
  std::atomic<bool> was_sent = false;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch && !was_sent.exchange(true)) {
      is_sent.count_down();
      drains.wait();
    }
    return ApiFault::kNone;
  });
  const std::jthread caller([this] { EXPECT_TRUE(Add("c2").ok); });
  is_sent.wait();
  drains.count_down();
  constexpr std::chrono::seconds kLimit{30};
  const auto began = std::chrono::steady_clock::now();
  agent_->Drain(kLimit);
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLimit);
}

TEST_F(AgentTest, ALostAnswerIsSettledWithinTheCall) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  FailPatches({ApiFault::kLostAfterCommit});
  EXPECT_TRUE(Add("c2").ok);
  EXPECT_EQ(Held().size(), 2U);
}

TEST_F(AgentTest, ALateCommitBringsNothingBack) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  FailPatches({ApiFault::kLateCommit});
  ASSERT_TRUE(Add("c2").ok);
  ASSERT_TRUE(Del("c2").ok);
  Await([this] { return Held().size() == 1; }, "the DEL is written");
  api_.ReleaseLateWrites();
  EXPECT_EQ(Held().size(), 1U);
}

// Within the test's 60 s only the LIST that the agent sends after the failed claim can find the block. This LIST waits
// until the block exists.
TEST_F(AgentTest, ABlockThatALateCreationBringsIsFoundBeforeTheNextClaim) {
  StartAgent();
  std::latch exists(1);
  std::atomic<bool> is_created = false;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPost) {
      is_created = true;
      return ApiFault::kLateCommit;
    }
    for (const auto& [key, value] : request.query)
      if (is_created && key == "fieldSelector" && value.starts_with("spec.node=")) exists.wait();
    return ApiFault::kNone;
  });
  // On a busy machine the time limit of an ADD may pass before the agent sends the POST.
  for (int i = 0; i < 60 && !is_created; ++i) {
    EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), /*timeout_s=*/1)).ok);
  }
  api_.ReleaseLateWrites();
  exists.count_down();
  api_.SetFaults(nullptr);
  const std::string block = api_.Objects(kBlocks).at(0)["metadata"]["name"];
  Await([&] { return agent_->DebugBlocks().find(block) != std::string::npos; }, "the agent knows the block");
  ASSERT_TRUE(Add("c2").ok);
  EXPECT_EQ(api_.Objects(kBlocks).size(), 1U);
}

TEST_F(AgentTest, AnAddWhoseCreationWasInDoubtIsAnsweredTheSameAgain) {
  StartAgent();
  api_.SetFaults([lost = std::make_shared<std::atomic<bool>>(false)](const k8sclient::Request& request) {
    const bool is_first = request.method == k8sclient::Method::kPost && !lost->exchange(true);
    return is_first ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  const std::string address = AddressIn(Add("c1"));
  EXPECT_EQ(AddressIn(Add("c1")), address);
  EXPECT_EQ(api_.Objects(kBlocks).size(), 1U);
}

// Otherwise each ADD that requests an address of the block would claim the block again and again.
TEST_F(AgentTest, ClaimsNoBlockThatIsBeingDeleted) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const std::string block = api_.Objects(kBlocks).at(0)["metadata"]["name"];
  ASSERT_TRUE(api_.Change(kBlocks, block, [](nlohmann::json& object) {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  }));
  const int posts = api_.CountOf(k8sclient::Method::kPost);
  Await([&] { return agent_->DebugBlocks().find(block) != std::string::npos; }, "the agent knows the block");
  EXPECT_TRUE(Add("c2").ok);
  EXPECT_LE(api_.CountOf(k8sclient::Method::kPost) - posts, 4);
}

TEST_F(AgentTest, ARefusedChangeDoesNotTakeOthersWithIt) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  const std::string poison = "poisoned-pod";
  std::latch arrived(9);
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch) return ApiFault::kNone;
    arrived.wait();
    return request.body.find(poison) != std::string::npos ? ApiFault::kInvalid : ApiFault::kNone;
  });
  std::atomic<int> succeeded = 0;
  bool poisoned_ok = true;
  {
    std::vector<std::jthread> callers;
    for (int i = 1; i <= 8; ++i) {
      callers.emplace_back([&, i] {
        arrived.count_down();
        if (Add("c" + std::to_string(i)).ok) ++succeeded;
      });
    }
    callers.emplace_back([&] {
      auto body = nlohmann::json::parse(Body("ADD", "bad"));
      body["args"] = "IgnoreUnknown=1;K8S_POD_NAME=" + poison;
      arrived.count_down();
      poisoned_ok = agent_->Handle(body.dump()).ok;
    });
  }
  EXPECT_EQ(succeeded.load(), 8);
  EXPECT_FALSE(poisoned_ok);
}

TEST_F(AgentTest, AnAddWhileTheApiServerIsAwayIsTriedAgainLater) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  const Reply reply = Add("c2");
  ASSERT_FALSE(reply.ok);
  EXPECT_EQ(nlohmann::json::parse(reply.body)["code"], 11);
}

TEST_F(AgentTest, ARightThatIsMissingForAMomentIsTriedAgain) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  FailPatches({ApiFault::kForbidden});
  EXPECT_EQ(nlohmann::json::parse(Add("c2").body)["code"], 11);
  EXPECT_TRUE(Add("c2").ok);
}

TEST_F(AgentTest, CallsSayWhyTheBlocksAreNotLoaded) {
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  StartAgent();
  const Reply reply = agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), /*timeout_s=*/3));
  EXPECT_FALSE(reply.ok);
  EXPECT_NE(reply.body.find("list ipblocks"), std::string::npos) << reply.body;
}

// An overloaded API server may fail these lists for minutes, and each attempt to load would fence every block again.
TEST_F(AgentTest, FencesABlockOnlyAfterItsNodeIsListed) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  agent_.reset();
  const auto refused = std::make_shared<std::atomic<int>>(0);
  const auto is_listed = std::make_shared<std::atomic<bool>>(false);
  const auto early_patches = std::make_shared<std::atomic<int>>(0);
  api_.SetFaults([=](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch && !*is_listed) ++*early_patches;
    if (request.path != "/api/v1/nodes" || *is_listed) return ApiFault::kNone;
    *is_listed = ++*refused > 2;
    return *is_listed ? ApiFault::kNone : ApiFault::kUnavailable;
  });
  const int before = api_.CountOf(k8sclient::Method::kPatch);
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  EXPECT_EQ(*early_patches, 0);
  EXPECT_EQ(api_.CountOf(k8sclient::Method::kPatch) - before, 1);
}

TEST_F(AgentTest, StatusStaysGoodWhileTheApiServerIsAway) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  EXPECT_TRUE(agent_->Handle(Body("STATUS", "c1")).ok);
}

TEST_F(AgentTest, ABlockIsClaimedAheadOfNeed) {
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 16; });
  StartAgent();
  Await([this] { return api_.Objects(kBlocks).size() == 1; }, "a block is claimed");
  EXPECT_TRUE(Held().empty());
}

TEST_F(AgentTest, LoadsAndClaimsAheadWithoutAThread) {
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 16; });
  MakeAgent()->LoadAndClaim({});
  EXPECT_EQ(api_.Objects(kBlocks).size(), 1U);
}

TEST_F(AgentTest, ClaimsNoBlockOfASharedPoolInAdvance) {
  api_.Change(
      std::string(crds::kPoolsPath), "shared", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 16; });
  MakeAgent()->LoadAndClaim({});
  EXPECT_TRUE(api_.Objects(kBlocks).empty());
}

TEST_F(AgentTest, AClaimWhoseAnswerWasLostIsNotFollowedByASecond) {
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 16; });
  api_.SetFaults([lost = std::make_shared<std::atomic<bool>>(false)](const k8sclient::Request& request) {
    const bool is_first = request.method == k8sclient::Method::kPost && !lost->exchange(true);
    return is_first ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  MakeAgent()->LoadAndClaim({});
  EXPECT_EQ(api_.Objects(kBlocks).size(), 1U);
}

class ScarcePool : public AgentTest {
 protected:
  // Counts blocks like the controller.
  void Count() {
    const std::size_t blocks = api_.Objects(kBlocks).size();
    api_.Change(std::string(crds::kPoolsPath), "p1", [blocks](nlohmann::json& pool) {
      pool["spec"]["warmAddresses"] = 16;
      pool["status"]["blocks"] = blocks;
    });
  }
  void SetUp() override { Count(); }
  // A node without pods joins, and the controller counts what the node has claimed.
  void Join(const std::string& node) {
    MakeAgentOf(watched_, {.node = node})->LoadAndClaim({});
    Count();
  }
};

TEST_F(ScarcePool, IsNotSharedOutAmongNodesThatUseNothingOfIt) {
  for (const char* const node : {"n2", "n3", "n4", "n5"}) Join(node);
  StartAgent();
  EXPECT_TRUE(Add("c1").ok) << "the fifth node of a pool of four blocks";
}

// The pool's status does not count any of the claimed blocks yet.
TEST_F(ScarcePool, IsNotSharedOutAmongNodesThatSeeItAtTheSameMoment) {
  for (const char* const node : {"n2", "n3", "n4", "n5"}) MakeAgentOf(watched_, {.node = node})->LoadAndClaim({});
  StartAgent();
  EXPECT_TRUE(Add("c1").ok) << "the fifth node of a pool of four blocks";
}

TEST_F(ScarcePool, HasNoBlockClaimedAheadByANodeThatUsesNothingOfItBeforeItsMomentToLook) {
  MakeAgentOf(watched_, {.looks_within = std::chrono::days(10)})->LoadAndClaim({});
  EXPECT_EQ(api_.Objects(kBlocks).size(), 0U);
}

TEST_F(ScarcePool, ThatCannotBeReadHasNoBlocksClaimedAhead) {
  std::atomic<int> reads = 0;
  api_.SetFaults([&reads](const k8sclient::Request& request) {
    const bool is_its = request.method == k8sclient::Method::kGet && request.path.ends_with("/ippools/p1");
    reads += is_its ? 1 : 0;
    return is_its ? ApiFault::kForbidden : ApiFault::kNone;
  });
  StartAgent();
  Await([&reads] { return reads >= 1; }, "the pool is asked for");
  agent_.reset();
  EXPECT_EQ(api_.Objects(kBlocks).size(), 0U);
}

TEST_F(ScarcePool, GivesBlocksAheadToNodesThatUseIt) {
  for (const char* const node : {"n2", "n3"}) Join(node);
  StartAgent();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  Await([this] { return api_.Objects(kBlocks).size() == 4; }, "a block is claimed ahead by the node that needs one");
}

TEST_F(ScarcePool, IsNotListedAgainBeforeItsStatusChanges) {
  // No block of another pool is claimed in advance, because that would also list blocks.
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 0; });
  PutPool("one", "10.99.0.0/30", "Node", 30);
  const char* const of_another = R"({"apiVersion":"ipam.berth.dev/v1alpha1","kind":"IPBlock",
      "metadata":{"name":"10.99.0.0-30","finalizers":["ipam.berth.dev/in-use"]},
      "spec":{"space":"default","pool":"one","poolUID":"uid-of-one","cidr":"10.99.0.0/30","node":"n2"},
      "used":0,"free":2,"allocations":{}})";
  ASSERT_TRUE(api_.Call({.method = k8sclient::Method::kPost, .path = kBlocks, .body = of_another}, {})->ok());
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  std::atomic<int> lists = 0;
  std::atomic<int> claims = 0;
  api_.SetFaults([&](const k8sclient::Request& request) {
    const bool is_list = request.path == kBlocks && request.accept == k8sclient::kPartialMetadataList;
    if (is_list && request.query.size() == 1) ++lists;  // a list of all blocks, and not the watch of one block
    if (request.method == k8sclient::Method::kPost) ++claims;
    return ApiFault::kNone;
  });
  for (int i = 1; i < 20; ++i) EXPECT_FALSE(Add("c" + std::to_string(i), "one").ok);
  EXPECT_EQ(lists, 1);
  EXPECT_LE(claims, 3);
  api_.Change(std::string(crds::kPoolsPath), "one", [](nlohmann::json& pool) { pool["status"]["blocks"] = 1; });
  Await([&] { return !Add("again", "one").ok && lists == 2; }, "the changed status is looked into");
  RemoveBlock("10.99.0.0-30");
  api_.Change(std::string(crds::kPoolsPath), "one", [](nlohmann::json& pool) { pool["status"]["blocks"] = 0; });
  Await([&] { return Add("last", "one").ok; }, "the block that is free again is claimed");
}

TEST(ClaimTurns, LookAgainAtAPoolWithoutFreeBlocksAfterAMinute) {
  k8sclient::testing::FakeClock clock;
  ClaimTurns turns(clock);
  ipam::Pool pool;
  pool.uid = "u";
  EXPECT_FALSE(turns.IsAllClaimed(pool));
  turns.NoteAllClaimed(pool);
  clock.Advance(std::chrono::seconds(29));
  EXPECT_TRUE(turns.IsAllClaimed(pool));
  clock.Advance(std::chrono::seconds(31));
  EXPECT_FALSE(turns.IsAllClaimed(pool));
}

}  // namespace
}  // namespace berth::agent
