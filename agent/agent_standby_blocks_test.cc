// SPDX-License-Identifier: Apache-2.0
// Tests how many addresses of each block are on standby (docs/adr/0008): as many as allowed, while a pod holds an
// address of the block.
#include <functional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "cni/attachment.h"

namespace berth::agent {
namespace {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

constexpr std::size_t kStandbyOfBlock = 4;
constexpr int kBlock = 8;

class StandbyBlocksTest : public AgentTest {
 protected:
  void SetUp() override {
    PutPool("small", "10.77.0.0/26", "Node", 29);
    // The ranges leave out the first and the last block, in which one address is assigned to no pod.
    ChangePool([](json& pool) { pool["spec"]["ranges"] = {"10.77.0.16-10.77.0.47"}; });
    agent_ = MakeAgentOf(watched_, {.standby = kStandbyOfBlock});
    agent_->Start();
  }
  void AddSome(int first, int count) {
    for (int i = first; i < first + count; ++i) ASSERT_TRUE(Add("c" + std::to_string(i), "small").ok);
  }
  // Returns how many addresses of blocks without entries are on standby.
  [[nodiscard]] std::size_t StandbyOfEmpty() const { return CountStandby(/*of_empty=*/true); }
  [[nodiscard]] std::size_t StandbyOfHeld() const { return CountStandby(/*of_empty=*/false); }
  void ChangePool(const std::function<void(json&)>& change) {
    ASSERT_TRUE(api_.Change(std::string(crds::kPoolsPath), "small", change));
  }

 private:
  [[nodiscard]] std::size_t CountStandby(bool of_empty) const {
    std::size_t count = 0;
    for (const json& block : api_.Objects(kBlocks)) {
      const bool is_empty = block.value("allocations", json::object()).empty();
      if (is_empty == of_empty) count += block.value("standby", json::array()).size();
    }
    return count;
  }
};

TEST_F(StandbyBlocksTest, AnAddressThatComesBackToAFullBlockIsOnStandby) {
  AddSome(0, kBlock);
  Await([this] { return StandbyOfHeld() == 0; }, "the block is full");
  ASSERT_TRUE(Del("c3").ok);
  Await([this] { return StandbyOfHeld() == 1; }, "it is on standby");
}

TEST_F(StandbyBlocksTest, ABlockThatIsEmptiedBesideAnotherHasNothingOnStandby) {
  AddSome(0, kBlock + 2);
  ASSERT_TRUE(Del("c" + std::to_string(kBlock)).ok);
  ASSERT_TRUE(Del("c" + std::to_string(kBlock + 1)).ok);
  Await([this] { return Held().size() == kBlock; }, "all is written");
  EXPECT_EQ(StandbyOfEmpty(), 0U);
}

struct UnusableCase {
  const char* name;
  std::function<void(json&)> change;
};
class UnusablePoolTest : public StandbyBlocksTest, public testing::WithParamInterface<UnusableCase> {};

TEST_P(UnusablePoolTest, KeepsNothingOnStandby) {
  AddSome(0, 2);
  Await([this] { return StandbyOfHeld() == kStandbyOfBlock; }, "as much is on standby as may be");
  ChangePool(GetParam().change);
  Await([this] { return StandbyOfHeld() == 0; }, "nothing is on standby");
}

INSTANTIATE_TEST_SUITE_P(
    Table, UnusablePoolTest,
    testing::Values(UnusableCase{"IfDisabled", [](json& pool) { pool["spec"]["disabled"] = true; }},
                    UnusableCase{"IfBeingDeleted",
                                 [](json& pool) { pool["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"; }}),
    [](const auto& c) { return std::string(c.param.name); });

struct BoundsCase {
  const char* name;
  const char* subnet;
  int block_size;
};
class StandbyBounds : public AgentTest, public testing::WithParamInterface<BoundsCase> {};

// A refused address stays on standby next to the other addresses there: together they must not exceed the limit of the
// CRD's schema.
TEST_P(StandbyBounds, AreKeptBesideAnEntryThatIsRefused) {
  PutPool("large", GetParam().subnet, "Node", GetParam().block_size);
  agent_ = MakeAgentOf(watched_, {.standby = 64});
  agent_->Start();
  ASSERT_TRUE(Add("c0", "large").ok);
  ASSERT_TRUE(Add("c00", "large").ok);
  const std::string bad = cni::MakeAttachment("net", "bad", "eth0");
  api_.SetFaults([bad](const Request& request) {
    const bool is_refused = request.method == Method::kPatch && request.body.find(bad) != std::string::npos;
    return is_refused ? ApiFault::kInvalid : ApiFault::kNone;
  });
  ASSERT_TRUE(Add("bad", "large").ok);
  for (int i = 1; i < 80; ++i) {
    const Reply added = Add("c" + std::to_string(i), "large");
    ASSERT_TRUE(added.ok) << added.body;
  }
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return Held().size() == 80; }, "all but the refused entry is written");
  api_.SetFaults(nullptr);
  Await([this] { return Held().size() == 81; }, "the refused entry is written");
}

constexpr BoundsCase kBoundsCases[] = {
    {"Of256", "10.88.0.0/16", 24},
    {"Of128", "10.88.0.0/16", 25},
    {"Of256InIPv6", "2001:db8:88::/64", 120},
    {"Of128InIPv6", "2001:db8:88::/64", 121},
};
INSTANTIATE_TEST_SUITE_P(Table, StandbyBounds, testing::ValuesIn(kBoundsCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::agent
