// SPDX-License-Identifier: Apache-2.0
// Engine with faults: each write of an ADD and a DEL fails in each way in which a network can make it fail, for each
// combination of pools. No address ever has two holders, and after the DEL no address is held.
#include <gtest/gtest.h>

#include "ipam/engine.h"
#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

struct PoolsCase {
  const char* name;
  std::vector<std::string> pools;
  bool has_block;  // the node already has blocks of the pools
};

// The pools, the number of the write that fails, and its fault.
using FaultCase = std::tuple<PoolsCase, int, Fault>;

class EngineFaults : public EngineTest, public testing::WithParamInterface<FaultCase> {
 protected:
  EngineFaults() {
    if (std::get<0>(GetParam()).has_block) {
      EXPECT_TRUE(engine_.Add(Request(100, Pools())));
      EXPECT_TRUE(engine_.Add(Request(101, Pools())));
    }
    others_ = AllHeld();
  }

  static std::vector<std::string> Pools() { return std::get<0>(GetParam()).pools; }

  void FailWrite() {
    store_.faults.assign(static_cast<std::size_t>(std::get<1>(GetParam())), Fault::kNone);
    store_.faults.push_back(std::get<2>(GetParam()));
  }

  void ExpectOnlyOthersHold() const {
    EXPECT_EQ(AllHeld(), others_);
    EXPECT_TRUE(store_.intents.empty()) << "an intent is still open";
  }

  std::multiset<std::string> others_;
};

TEST_P(EngineFaults, AnAddAndThenADelLeaveNoEntry) {
  FailWrite();
  static_cast<void>(engine_.Add(Request(1, Pools())));
  store_.faults.clear();
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  store_.ReleaseLateWrites();
  ExpectOnlyOthersHold();
}

TEST_P(EngineFaults, AnAddThatSucceedsIsRecordedOncePerFamily) {
  FailWrite();
  const auto result = engine_.Add(Request(1, Pools()));
  store_.faults.clear();
  store_.ReleaseLateWrites();
  if (!result) return;  // other tests check what a failed ADD leaves
  std::multiset<std::string> want = others_;
  for (const AssignedAddress& assigned : result->addresses) want.insert(assigned.address.ToString());
  EXPECT_EQ(AllHeld(), want);
}

TEST_P(EngineFaults, ARepeatedAddAfterAFailureHasOneAddressPerFamily) {
  FailWrite();
  static_cast<void>(engine_.Add(Request(1, Pools())));
  store_.faults.clear();
  const auto again = engine_.Add(Request(1, Pools()));
  ASSERT_TRUE(again) << again.error().message;
  store_.ReleaseLateWrites();
  std::multiset<std::string> want = others_;
  for (const AssignedAddress& assigned : again->addresses) want.insert(assigned.address.ToString());
  EXPECT_EQ(AllHeld(), want);
}

TEST_P(EngineFaults, ARepeatedDelAfterAFailureLeavesNoEntry) {
  ASSERT_TRUE(engine_.Add(Request(1, Pools())));
  FailWrite();
  static_cast<void>(engine_.Del(TestAttachment(1)));
  store_.faults.clear();
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  store_.ReleaseLateWrites();
  ExpectOnlyOthersHold();
}

TEST_P(EngineFaults, NoAttachmentGetsAnAddressThatALateWriteGivesToAnother) {
  FailWrite();
  const auto first = engine_.Add(Request(1, Pools()));
  store_.faults.clear();
  const auto second = engine_.Add(Request(2, Pools()));
  ASSERT_TRUE(second) << second.error().message;
  store_.ReleaseLateWrites();
  const std::multiset<std::string> held = AllHeld();
  for (const std::string& address : held) EXPECT_EQ(held.count(address), 1U) << address << " has two holders";
  for (const AssignedAddress& assigned : second->addresses) {
    EXPECT_EQ(held.count(assigned.address.ToString()), 1U) << "the second ADD's address is not recorded";
  }
}

using EngineWithoutAnswers = EngineTest;

TEST_F(EngineWithoutAnswers, ClaimsABlockTwiceAtMost) {
  constexpr std::size_t kMany = 30;
  store_.faults.assign(kMany, Fault::kLateCommit);
  const auto result = engine_.Add(Request(1, {"v4"}));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(kMany - store_.faults.size(), 2U) << "writes of the ADD";
}

const PoolsCase kPoolsCases[] = {
    {"NodeNewBlock", {"v4"}, false},
    {"NodeOldBlock", {"v4"}, true},
    {"SharedNewBlock", {"shared"}, false},
    {"SharedOldBlock", {"shared"}, true},
    {"DualNewBlocks", {"v4", "v6"}, false},
    {"DualOldBlocks", {"v4", "v6"}, true},
    {"NodeAndSharedNewBlocks", {"shared", "v6"}, false},
    {"NodeAndSharedOldBlocks", {"shared", "v6"}, true},
};
const char* const kFaultNames[] = {"None", "Unavailable", "LostAfterCommit", "LateCommit"};

INSTANTIATE_TEST_SUITE_P(EveryWrite, EngineFaults,
                         testing::Combine(testing::ValuesIn(kPoolsCases), testing::Values(0, 1, 2, 3),
                                          testing::Values(Fault::kUnavailable, Fault::kLostAfterCommit,
                                                          Fault::kLateCommit)),
                         [](const auto& c) {
                           return std::string(std::get<0>(c.param).name) + "Write" +
                                  std::to_string(std::get<1>(c.param)) +
                                  kFaultNames[static_cast<int>(std::get<2>(c.param))];
                         });

}  // namespace
}  // namespace berth::ipam
