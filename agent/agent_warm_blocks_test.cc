// SPDX-License-Identifier: Apache-2.0
// Tests Agent on an API server in memory: when it claims a block in advance, and when it does not.
#include <atomic>
#include <string>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"

namespace berth::agent {
namespace {

const std::string kPools(crds::kPoolsPath);

class WarmBlocksTest : public AgentTest {
 protected:
  // A pool with four addresses in each block.
  void PutSmallPool(const std::string& name, const std::string& subnet, int warm_addresses,
                    const std::string& uid_prefix = "uid-of-") {
    PutPool(name, subnet, "Node", 30, uid_prefix);
    api_.Change(kPools, name, [&](nlohmann::json& pool) {
      pool["spec"]["allowEdgeAddresses"] = true;
      pool["spec"]["warmAddresses"] = warm_addresses;
    });
  }
  [[nodiscard]] std::ptrdiff_t BlocksOf(const std::string& pool) const {
    return std::ranges::count_if(api_.Objects(kBlocks),
                                 [&](const nlohmann::json& block) { return block["spec"]["pool"] == pool; });
  }
};

// The agent looks at the pools in the order of their names. So a block of pool z shows that the agent has looked at
// pool p1 again.
TEST_F(WarmBlocksTest, NoBlockIsClaimedWhileExactlyTheWarmAddressesAreFree) {
  PutSmallPool("p1", "10.56.0.0/16", 4);
  StartAgent();
  Await([this] { return BlocksOf("p1") == 1; }, "a block is claimed ahead");
  PutSmallPool("z", "10.88.0.0/24", 1);
  Await([this] { return BlocksOf("z") == 1; }, "a block of the other pool, too");
  EXPECT_EQ(BlocksOf("p1"), 1);
}

TEST_F(WarmBlocksTest, NoBlockIsClaimedOfAPoolThatAllowsTheNodeNoMoreBlocks) {
  PutSmallPool("p1", "10.56.0.0/16", 5);
  api_.Change(kPools, "p1", [](nlohmann::json& pool) { pool["spec"]["maxBlocksPerNode"] = 1; });
  StartAgent();
  Await([this] { return BlocksOf("p1") == 1; }, "a block is claimed ahead");
  PutSmallPool("z", "10.88.0.0/24", 1);
  Await([this] { return BlocksOf("z") == 1; }, "a block of the other pool, too");
  EXPECT_EQ(BlocksOf("p1"), 1);
}

TEST_F(WarmBlocksTest, NoBlockIsClaimedOfAPoolThatWasReplacedWhileTheWatchIsLate) {
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  watched_.Hold("another-p1");
  std::atomic<bool> is_replaced = false;
  api_.SetFaults([&](const k8sclient::Request& request) {
    const bool is_read = request.method == k8sclient::Method::kGet && request.path == kPools + "/p1";
    if (is_read && !is_replaced.exchange(true)) PutSmallPool("p1", "10.55.0.0/24", 4, "another-");
    return ApiFault::kNone;
  });
  api_.Change(kPools, "p1", [](nlohmann::json& pool) { pool["spec"]["warmAddresses"] = 4; });
  Await([this] { return BlocksOf("p1") == 1; }, "the agent has read the new pool, and claims a block of it");
  ASSERT_EQ(BlocksOf("p1"), 1);
  EXPECT_EQ(api_.Objects(kBlocks)[0]["spec"]["poolUID"], "another-p1");
  api_.SetFaults(nullptr);
  watched_.Hold("");
}

// A block of the new pool shows that the agent knows that the API server is back.
TEST_F(WarmBlocksTest, OneRequestShowsThatTheApiServerIsBackHoweverManyPoolsThereAre) {
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  std::atomic<int> further_pages = 0;
  std::atomic<bool> is_away = true;
  api_.SetFaults([&](const k8sclient::Request& request) {
    const bool is_page = std::ranges::any_of(request.query, [](const auto& one) { return one.first == "continue"; });
    if (is_page && request.path == kPools) ++further_pages;
    return is_away && request.method == k8sclient::Method::kPost ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 1)).ok);
  is_away = false;
  PutSmallPool("z", "10.88.0.0/24", 1);
  Await([this] { return BlocksOf("z") == 1; }, "the agent claims a block");
  EXPECT_EQ(further_pages, 0);
  api_.SetFaults(nullptr);
}

}  // namespace
}  // namespace berth::agent
