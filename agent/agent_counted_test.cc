// SPDX-License-Identifier: Apache-2.0
// Tests what the agent does so that a Node's address count is right: it claims a first block, and looks for blocks that
// the controller made.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/agent_test_setup.h"
#include "crds/block.h"
#include "crds/pool.h"
#include "ipam/block.h"
#include "ipam/test_values.h"
#include "k8sclient/clock.h"

namespace berth::agent {
namespace {

// The real clock until Stop. After Stop, Now advances only by Advance, so the test controls the time between two looks.
class StoppedClock final : public k8sclient::Clock {
 public:
  void Stop() { stopped_at_ = k8sclient::RealClock().Now(); }
  void Advance(std::chrono::milliseconds duration) { stopped_at_ = stopped_at_.load() + duration; }

  std::chrono::steady_clock::time_point Now() override {
    const auto stopped_at = stopped_at_.load();
    return stopped_at == std::chrono::steady_clock::time_point() ? k8sclient::RealClock().Now() : stopped_at;
  }
  std::chrono::nanoseconds SinceBoot() override { return k8sclient::RealClock().SinceBoot(); }
  std::chrono::system_clock::time_point WallNow() override { return k8sclient::RealClock().WallNow(); }
  bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) override {
    return k8sclient::RealClock().Sleep(duration, stop);
  }
  double Random() override { return 0; }

 private:
  std::atomic<std::chrono::steady_clock::time_point> stopped_at_ = std::chrono::steady_clock::time_point();
};

class AgentCountedTest : public AgentTest {
 protected:
  void PutBlockOf(const std::string& node, const std::string& cidr) {
    const auto pool = crds::ParsePool(api_.Objects(std::string(crds::kPoolsPath))[0]);
    api_.Put(kBlocks, crds::BlockToJson(ipam::NewBlock(*pool, ipam::PrefixOf(cidr), node)));
  }
  // Counts the lists of this node's blocks from now on.
  void CountLooks() {
    api_.SetFaults([this](const k8sclient::Request& request) {
      const bool is_look =
          request.method == k8sclient::Method::kGet && request.path == kBlocks &&
          std::ranges::any_of(request.query, [](const auto& pair) { return pair.second == "spec.node=n1"; });
      looks_ += is_look ? 1 : 0;
      return ApiFault::kNone;
    });
  }

  StoppedClock clock_;
  std::atomic<int> looks_ = 0;
};

// Three of the pool's four blocks exist, so an agent that does not use the pool leaves the last one to others.
TEST_F(AgentCountedTest, AFirstBlockOfACountedPoolIsClaimedThoughMoreThanHalfOfTheBlocksExist) {
  for (const char* cidr : {"10.55.0.0/26", "10.55.0.64/26", "10.55.0.128/26"}) PutBlockOf("n2", cidr);
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) {
    pool["spec"]["resource"] = "ipv4";
    pool["status"]["blocks"] = 3;
  });
  StartAgent();
  Await([&] { return api_.Objects(kBlocks).size() == 4; }, "the last block is claimed");
}

TEST_F(AgentCountedTest, CallsThatFindAPoolExhaustedLookForNewBlocksOnceASecond) {
  PutPool("p1", "10.55.0.0/26", "Node");
  PutBlockOf("n2", "10.55.0.0/26");
  agent_ = MakeAgentBy(clock_, watched_, {.watches_blocks = false});
  agent_->Start();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  clock_.Stop();
  CountLooks();
  EXPECT_FALSE(Add("c1").ok);
  Await([this] { return looks_ == 1; }, "the first call looks");
  for (const char* container : {"c2", "c3", "c4"}) EXPECT_FALSE(Add(container).ok);
  EXPECT_EQ(looks_, 1);
  clock_.Advance(std::chrono::milliseconds(999));
  EXPECT_FALSE(Add("c5").ok);
  EXPECT_EQ(looks_, 1);
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_FALSE(Add("c6").ok);
  Await([this] { return looks_ == 2; }, "a second later a call looks again");
}

}  // namespace
}  // namespace berth::agent
