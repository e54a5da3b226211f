// SPDX-License-Identifier: Apache-2.0
// Tests an agent on a node whose clock is wrong: it compares and records times by the API server's clock.
#include <chrono>
#include <string>
#include <string_view>
#include <variant>

#include <gmock/gmock.h>

#include "agent/agent_test_setup.h"
#include "crds/block.h"
#include "crds/pool.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "k8sclient/clock.h"
#include "k8sclient/testing/date_adder.h"

namespace berth::agent {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

constexpr std::chrono::seconds kCooldown = 30s;
// The estimate of the API server's time is right to about 1 s, and a test may wait on a busy machine.
constexpr std::chrono::seconds kTolerance = 10s;

// A pool of one block with four addresses.
class AgentClockTest : public AgentTest {
 protected:
  AgentClockTest() {
    api_.Put(std::string(crds::kPoolsPath),
             {{"metadata", {{"name", "small"}, {"uid", "uid-of-small"}}},
              {"spec",
               {{"subnet", "10.77.0.0/30"},
                {"affinity", "Node"},
                {"warmAddresses", 0},
                {"resource", ""},
                {"cooldownSeconds", kCooldown.count()},
                {"blockSize", 30}}},
              {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}}}}}});
  }

  // Returns the API server's time; this node's clock is ahead of it.
  static std::chrono::system_clock::time_point ServerNow(std::chrono::seconds ahead) {
    return k8sclient::RealClock().WallNow() - ahead;
  }
  void StartAgentAhead(std::chrono::seconds ahead) {
    agent_ = MakeAgentOf(server_, {});
    ahead_ = ahead;
    agent_->Start();
    Await([this] { return agent_->IsReady(); }, "the agent has loaded");
  }

  [[nodiscard]] std::string OneEntry() const {
    const auto blocks = api_.Objects(kBlocks);
    const json none = json::object();
    const json allocations = blocks.empty() ? none : blocks.front().value("allocations", none);
    return allocations.empty() ? std::string() : allocations.begin()->get<std::string>();
  }
  [[nodiscard]] std::chrono::milliseconds FromServerNow(std::int64_t unix_ms) const {
    return std::chrono::milliseconds(unix_ms) -
           std::chrono::duration_cast<std::chrono::milliseconds>(ServerNow(ahead_).time_since_epoch());
  }

  std::atomic<std::chrono::seconds> ahead_ = 0s;
  k8sclient::testing::DateAdder server_{api_, [this] { return ServerNow(ahead_); }};
};

class AgentClockBy : public AgentClockTest, public testing::WithParamInterface<std::chrono::hours> {};

TEST_P(AgentClockBy, EntriesAndCoolingEndsHaveTimesOfTheApiServersClock) {
  StartAgentAhead(GetParam());
  ASSERT_TRUE(Add("c1", "small").ok);
  const auto held = ipam::ParseEntry(OneEntry());
  ASSERT_TRUE(std::holds_alternative<ipam::HeldEntry>(held)) << OneEntry();
  EXPECT_LT(std::chrono::abs(FromServerNow(std::get<ipam::HeldEntry>(held).since_ms)), kTolerance);
  ASSERT_TRUE(Del("c1").ok);
  Await([&] { return OneEntry().starts_with('~'); }, "the DEL is written");
  const auto cooling = ipam::ParseEntry(OneEntry());
  ASSERT_TRUE(std::holds_alternative<ipam::CoolingEntry>(cooling)) << OneEntry();
  EXPECT_LT(std::chrono::abs(FromServerNow(std::get<ipam::CoolingEntry>(cooling).until_ms) - kCooldown), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Errors, AgentClockBy, testing::Values(-10h * 24 * 365, -1h, 1h, 10h * 24 * 365),
                         [](const auto& c) { return std::to_string(c.index); });

TEST_F(AgentClockTest, ANodeThatIsAMinuteAheadWaitsUntilAnAddressHasCooled) {
  ahead_ = 60s;
  const auto until =
      std::chrono::duration_cast<std::chrono::milliseconds>((ServerNow(60s) + kCooldown).time_since_epoch());
  const std::string cooling = "~ t=" + std::to_string(until.count());
  ipam::Block block = {};
  for (const json& object : api_.Objects(std::string(crds::kPoolsPath))) {
    if (object["metadata"]["name"] != "small") continue;
    block = ipam::NewBlock(*crds::ParsePool(object), ipam::Prefix::Parse("10.77.0.0/30").value(), "n1");
  }
  for (ipam::BlockOffset offset = 0; offset < block.size(); ++offset) block.allocations[offset] = cooling;
  api_.Put(kBlocks, crds::BlockToJson(block));
  StartAgentAhead(60s);
  const Reply reply = Add("c1", "small");
  EXPECT_FALSE(reply.ok) << "it got an address that cools for half a minute: " << reply.body;
}

TEST_F(AgentClockTest, AMetricShowsTheDifference) {
  StartAgentAhead(60s);
  ASSERT_TRUE(Add("c1", "small").ok);
  EXPECT_THAT(agent_->MetricsText(), testing::ContainsRegex("\nberth_clock_difference_seconds (59|60|61)"));
}

TEST_F(AgentClockTest, WithoutADateNoMetricShowsTheDifference) {
  StartAgent();
  ASSERT_TRUE(Add("c1", "small").ok);
  EXPECT_THAT(agent_->MetricsText(), testing::Not(HasSubstr("\nberth_clock_difference_seconds")));
}

}  // namespace
}  // namespace berth::agent
