// SPDX-License-Identifier: Apache-2.0
// Engine: what an ADD makes of an outdated hint, of a node's labels and of an open intent, and which entries say s=1.
#include <string>
#include <vector>

#include "ipam/engine.h"
#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

using Add = EngineTest;

TEST_F(Add, UsesThePoolThatTheHintShowsDisabledIfThePoolIsEnabledNow) {
  Pool before = cluster_.pools["v4"];
  before.disabled = true;
  store_.stale_pools = std::vector<Pool>{before};
  EXPECT_TRUE(engine_.Add(Request(1, {"v4"})));
}

TEST_F(Add, AdmitsANodeThatThePoolSelects) {
  cluster_.nodes["n1"] = {{"zone", "a"}};
  cluster_.pools["v4"].node_selector =
      LabelSelector{{{.key = "zone", .op = LabelRequirement::Operator::kIn, .values = {"a"}}}};
  EXPECT_TRUE(engine_.Add(Request(1, {"v4"})));
}

// s=1 makes a DEL read the Shared blocks, too.
class SharedSibling : public EngineTest {
 protected:
  // Number of entries that say s=1.
  [[nodiscard]] int Marked() const {
    int marked = 0;
    for (const auto& [name, block] : cluster_.blocks) {
      for (const auto& [offset, entry] : block->allocations) marked += entry.contains(" s=1") ? 1 : 0;
    }
    return marked;
  }
};

TEST_F(SharedSibling, IsNotedForNoEntryIfBothAddressesAreOfNodeBlocks) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4", "v6"})));
  EXPECT_EQ(Marked(), 0);
}

TEST_F(SharedSibling, IsNotedForNoEntryIfTheOnlyAddressIsShared) {
  ASSERT_TRUE(engine_.Add(Request(1, {"shared"})));
  EXPECT_EQ(Marked(), 0);
}

TEST_F(SharedSibling, IsNotWrittenAgainWhenTheAddIsRepeated) {
  ASSERT_TRUE(engine_.Add(Request(1, {"shared", "v6"})));
  store_.writes = 0;
  ASSERT_TRUE(engine_.Add(Request(1, {"shared", "v6"})));
  EXPECT_EQ(store_.writes, 0);
}

class OpenIntentOfAnAdd : public EngineTest {
 protected:
  void Open(const Block& block) { store_.intents["i"] = {.id = "i", .attachment = TestAttachment(1), .block = block}; }
};

TEST_F(OpenIntentOfAnAdd, IsClosedIfItsBlockIsGone) {
  Open(NewBlock(cluster_.pools["v4"], Prefix::Parse("10.55.0.0/26").value(), "n1"));
  EXPECT_TRUE(engine_.Add(Request(1, {"v4"})));
  EXPECT_TRUE(store_.intents.empty());
}

TEST_F(OpenIntentOfAnAdd, StaysOpenAndEndsTheAddIfItsFenceCannotBeWritten) {
  const auto block = cluster_.Commit(NewBlock(cluster_.pools["v4"], Prefix::Parse("10.55.0.0/26").value(), "n1"));
  ASSERT_TRUE(block);
  Open(**block);
  store_.faults = {Fault::kUnavailable};
  EXPECT_EQ(engine_.Add(Request(1, {"v4"})).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(store_.intents.empty());
  EXPECT_TRUE(AllHeld().empty());
}

}  // namespace
}  // namespace berth::ipam
