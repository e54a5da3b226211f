// SPDX-License-Identifier: Apache-2.0
// Engine: what an ADD makes of an outdated hint, of a node's labels, of an open intent and of an earlier ADD with
// another configuration; which entries say s=1; and which errors a DEL and a GC return.
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

TEST_F(Add, SaysWhyThePoolIsNotReady) {
  cluster_.pools["v4"].ready = false;
  cluster_.pools["v4"].not_ready_reason = "BlockSizeConflict";
  cluster_.pools["v4"].not_ready_message = "it overlaps pool db";
  EXPECT_EQ(engine_.Add(Request(1, {"v4"})).error().message,
            "pool v4 is not Ready: BlockSizeConflict: it overlaps pool db");
}

TEST_F(Add, RefusesAnAnnotatedPoolBehindAConfiguredPool) {
  AddRequest request = Request(1, {"v6", "v4"});
  request.by_annotation = {"v4"};
  EXPECT_EQ(engine_.Add(request).error().code, ErrorCode::kInvalid);
}

TEST_F(Add, FindsTheSharedAddressAgainAlthoughTheFirstPoolIsOfNodes) {
  Put(TestPool("tiny", "10.77.0.0/32"));
  ASSERT_TRUE(engine_.Add(Request(1, {"tiny"})));
  const auto first = Texts(engine_.Add(Request(2, {"tiny", "shared"})));
  EXPECT_EQ(Texts(engine_.Add(Request(2, {"tiny", "shared"}))), first);
  EXPECT_EQ(AllHeld().size(), 2U);
}

TEST_F(Add, AnswersWithThePoolOfTheAddressThatAnEarlierConfigurationNamed) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  Put(TestPool("other", "10.77.0.0/28"));
  EXPECT_EQ(engine_.Add(Request(1, {"other"}))->addresses.front().prefix_length, 24);
  cluster_.pools.erase("v4");
  EXPECT_EQ(engine_.Add(Request(1, {"other"})).error().code, ErrorCode::kNotFound);
}

TEST_F(Add, AnswersTheRoutesOfAllPoolsAndTheFirstDns) {
  cluster_.pools["v4"].routes = {{.destination = Prefix::Parse("0.0.0.0/0").value()}};
  cluster_.pools["v6"].routes = {{.destination = Prefix::Parse("::/0").value()}};
  cluster_.pools["v4"].dns.domain = "a.example";
  cluster_.pools["v6"].dns.domain = "b.example";
  const auto result = engine_.Add(Request(1, {"v4", "v6"}));
  ASSERT_EQ(result->routes.size(), 2U);
  EXPECT_EQ(result->routes[1].destination.ToString(), "::/0");
  EXPECT_EQ(result->dns.domain, "a.example");
}

TEST_F(Add, IsNotNewIfItOnlyAddsAFamily) {
  EXPECT_TRUE(engine_.Add(Request(1, {"v4"}))->is_new);
  EXPECT_FALSE(engine_.Add(Request(1, {"v4", "v6"}))->is_new);
}

using Held = EngineTest;

TEST_F(Held, IsTheAddressWithItsPool) {
  const auto added = Texts(engine_.Add(Request(1, {"v4"})));
  const auto held = engine_.Held(TestAttachment(1));
  ASSERT_TRUE(held.has_value());
  ASSERT_EQ(held->size(), 1U);
  EXPECT_EQ(held->front().address.ToString(), added.front());
  EXPECT_EQ(held->front().pool, "v4");
}

using DelAndGc = EngineTest;

TEST_F(DelAndGc, ReturnTheErrorOfAWrite) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  store_.faults = {Fault::kUnavailable};
  EXPECT_EQ(engine_.Del(TestAttachment(1)).error().code, ErrorCode::kUnavailable);
  store_.faults = {Fault::kUnavailable};
  const auto errors = engine_.CollectGarbage("0123456789ab", [](const HeldEntry&) { return false; });
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors.front().code, ErrorCode::kUnavailable);
}

TEST_F(DelAndGc, GoOnBehindABlockThatHasNothingToFree) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  ASSERT_TRUE(engine_.Add(Request(2, {"v6"})));
  const auto errors = engine_.CollectGarbage(
      "0123456789ab", [](const HeldEntry& entry) { return entry.attachment == TestAttachment(1); });
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(AllHeld().size(), 1U);
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

TEST_F(SharedSibling, IsNotedForNoEntryIfTheAttachmentGetsOneAddressOfANodePoolOrASharedPool) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4", "shared"})));
  EXPECT_EQ(Marked(), 0);
}

TEST_F(SharedSibling, IsNotedForNoEntryIfBothAddressesAreShared) {
  ASSERT_TRUE(engine_.Add(Request(1, {"shared", "shared6"})));
  EXPECT_EQ(Marked(), 0);
}

TEST_F(SharedSibling, IsNotWrittenAgainWhenTheAddIsRepeated) {
  ASSERT_TRUE(engine_.Add(Request(1, {"shared", "v6"})));
  runtime_.stop = Error{.code = ErrorCode::kTimeout, .message = "a write would fail"};
  EXPECT_TRUE(engine_.Add(Request(1, {"shared", "v6"})));
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
