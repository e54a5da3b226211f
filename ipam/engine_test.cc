// SPDX-License-Identifier: Apache-2.0
// Engine: what ADD answers and refuses, with a model cluster without faults (with faults: engine_fault_test.cc).
#include "ipam/engine.h"

#include <algorithm>
#include <utility>

#include "ipam/claim.h"
#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

using Add = EngineTest;
using Del = EngineTest;
using Gc = EngineTest;

TEST_F(Add, AnswersOneAddressOfTheFamilyOfThePool) {
  const auto result = engine_.Add(Request(1, {"v4"}));
  ASSERT_EQ(result->addresses.size(), 1U);
  EXPECT_TRUE(cluster_.pools["v4"].subnet.Contains(result->addresses[0].address));
}

TEST_F(Add, RecordsTheAddressThatItAnswers) {
  const auto result = engine_.Add(Request(1, {"v4"}));
  EXPECT_EQ(AllHeld(), (std::multiset<std::string>{result->addresses[0].address.ToString()}));
}

TEST_F(Add, AnswersThePrefixLengthOfTheSubnet) {
  EXPECT_EQ(engine_.Add(Request(1, {"v4"}))->addresses[0].prefix_length, 24);
}

TEST_F(Add, AnswersTheSameAddressWhenItIsRepeated) {
  const auto first = Texts(engine_.Add(Request(1, {"v4", "v6"})));
  EXPECT_EQ(Texts(engine_.Add(Request(1, {"v4", "v6"}))), first);
}

TEST_F(Add, AddsOnlyTheNewFamilyWhenItIsRepeatedWithAnother) {
  const auto first = Texts(engine_.Add(Request(1, {"v4"})));
  EXPECT_EQ(Texts(engine_.Add(Request(1, {"v4", "v6"}))).front(), first.front());
  EXPECT_EQ(AllHeld().size(), 2U);
}

TEST_F(Add, AnswersFamiliesInTheOrderOfTheConfiguration) {
  EXPECT_EQ(engine_.Add(Request(1, {"v6", "v4"}))->addresses[0].address.family(), Family::kIPv6);
}

TEST_F(Add, AnswersFamiliesInTheConfiguredOrderEvenIfTheFirstIsShared) {
  EXPECT_EQ(engine_.Add(Request(1, {"shared", "v6"}))->addresses[0].address.family(), Family::kIPv4);
}

TEST_F(Add, TakesFromTheNextPoolOfTheFamilyWhenOneIsFull) {
  Put(TestPool("tiny", "10.77.0.0/32"));
  ASSERT_EQ(Texts(engine_.Add(Request(1, {"tiny"}))).front(), "10.77.0.0");
  const auto second = engine_.Add(Request(2, {"tiny", "v4"}));
  ASSERT_TRUE(second);
  EXPECT_TRUE(cluster_.pools["v4"].subnet.Contains(second->addresses[0].address));
}

TEST_F(Add, FailsAndNamesThePoolIfThePoolIsFull) {
  Put(TestPool("tiny", "10.77.0.0/32"));
  ASSERT_TRUE(engine_.Add(Request(1, {"tiny"})));
  const auto second = engine_.Add(Request(2, {"tiny"}));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kExhausted);
  EXPECT_NE(second.error().message.find("tiny"), std::string::npos) << second.error().message;
}

TEST_F(Add, NamesThePoolsThatItSkippedIfTheOthersAreFull) {
  Put(TestPool("tiny", "10.77.0.0/32"));
  Pool off = TestPool("off", "10.78.0.0/24");
  off.disabled = true;
  Put(off);
  ASSERT_TRUE(engine_.Add(Request(1, {"tiny", "off"})));
  const auto second = engine_.Add(Request(2, {"tiny", "off"}));
  ASSERT_FALSE(second);
  EXPECT_EQ(
      second.error().message,
      "pool tiny is exhausted: every block is claimed, and node n1 has no free address in its blocks; pool off is "
      "disabled");
}

TEST_F(Add, FreesTheAddressOfTheFirstFamilyWhenTheSecondIsFull) {
  Put(TestPool("tiny6", "2001:db8:7::/128"));
  ASSERT_TRUE(engine_.Add(Request(1, {"tiny6"})));
  ASSERT_FALSE(engine_.Add(Request(2, {"v4", "tiny6"})));
  EXPECT_EQ(AllHeld().size(), 1U);
}

TEST_F(Add, LetsNoAddressCoolThatNoContainerHasUsed) {
  Pool cools = TestPool("cools", "10.77.0.0/32");
  cools.cooldown = std::chrono::seconds(3600);
  Put(cools);
  Put(TestPool("tiny6", "2001:db8:7::/128"));
  ASSERT_TRUE(engine_.Add(Request(1, {"tiny6"})));
  ASSERT_FALSE(engine_.Add(Request(2, {"cools", "tiny6"})));
  EXPECT_EQ(Texts(engine_.Add(Request(3, {"cools"}))), std::vector<std::string>{"10.77.0.0"});
}

TEST_F(Add, KeepsTheAddressesThatTheAttachmentHadBeforeIfItFails) {
  Put(TestPool("tiny6", "2001:db8:7::/128"));
  ASSERT_TRUE(engine_.Add(Request(1, {"tiny6"})));
  ASSERT_TRUE(engine_.Add(Request(2, {"v4"})));
  ASSERT_FALSE(engine_.Add(Request(2, {"v4", "tiny6"})));
  EXPECT_EQ(AllHeld().size(), 2U);
}

TEST_F(Add, ReadsThePoolAgainBeforeItRefusesAPoolThatTheHintLacks) {
  store_.stale_pools = std::vector<Pool>{};
  EXPECT_TRUE(engine_.Add(Request(1, {"v4"})));
}

TEST_F(Add, TakesNothingIfThePoolWasDeletedSinceTheHint) {
  store_.stale_pools = std::vector<Pool>{cluster_.pools["v4"]};
  cluster_.pools.erase("v4");
  const auto result = engine_.Add(Request(1, {"v4"}));
  ASSERT_FALSE(result);
  EXPECT_TRUE(AllHeld().empty());
}

TEST_F(Add, TakesNoAddressThatWasReservedSinceTheHint) {
  Put(TestPool("two", "10.77.0.0/31"));
  store_.stale_pools = std::vector<Pool>{cluster_.pools["two"]};
  cluster_.pools["two"].withheld = {AddressRange::Parse("10.77.0.0").value()};
  EXPECT_EQ(Texts(engine_.Add(Request(1, {"two"}))).front(), "10.77.0.1");
}

TEST_F(Add, FailsIfAllFreeAddressesWereReservedSinceTheHint) {
  Put(TestPool("one", "10.77.0.0/32"));
  store_.stale_pools = std::vector<Pool>{cluster_.pools["one"]};
  cluster_.pools["one"].withheld = {AddressRange::Parse("10.77.0.0").value()};
  EXPECT_FALSE(engine_.Add(Request(1, {"one"})));
  EXPECT_TRUE(AllHeld().empty());
}

TEST_F(Add, TakesFromABlockThatTheHintLacks) {
  Put(TestPool("one-block", "10.77.0.0/28"));
  ASSERT_TRUE(engine_.Add(Request(1, {"one-block"})));
  store_.stale_blocks = std::vector<BlockView>{};
  EXPECT_TRUE(engine_.Add(Request(2, {"one-block"})));
  EXPECT_EQ(cluster_.blocks.size(), 1U);
}

TEST_F(Add, NeverTakesFromANodeBlockOfAnotherNode) {
  Put(TestPool("one-block", "10.77.0.0/28"));
  ModelBlockStore other{cluster_, "n2"};
  ASSERT_TRUE(Engine(other, runtime_).Add(Request(1, {"one-block"})));
  const auto result = engine_.Add(Request(2, {"one-block"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kExhausted);
}

TEST_F(Add, TakesFromASharedBlockThatAnotherNodeCreated) {
  ModelBlockStore other{cluster_, "n2"};
  ASSERT_TRUE(Engine(other, runtime_).Add(Request(1, {"shared"})));
  ASSERT_TRUE(engine_.Add(Request(2, {"shared"})));
  EXPECT_EQ(cluster_.blocks.size(), 1U);
}

TEST_F(Add, TakesFromAnExistingSharedBlockIfItAlsoHasANodePool) {
  Pool many = TestPool("many", "10.88.0.0/24", Affinity::kShared);
  many.block_length = 28;
  Put(many);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine_.Add(Request(i, {"many", "v6"})));
  EXPECT_EQ(std::ranges::count_if(cluster_.blocks, [](const auto& named) { return named.second->shared(); }), 1);
}

TEST_F(Add, ReadsTheLatestBlocksBeforeItRefusesAFullSharedPool) {
  ModelBlockStore other{cluster_, "n2"};
  ASSERT_TRUE(Engine(other, runtime_).Add(Request(0, {"shared"})));
  for (int i = 1; i < 14; ++i) ASSERT_TRUE(engine_.Add(Request(i, {"shared"})));
  store_.stale_blocks = std::vector<BlockView>{cluster_.blocks.begin()->second};
  ASSERT_TRUE(Engine(other, runtime_).Del(TestAttachment(0)));
  EXPECT_TRUE(engine_.Add(Request(99, {"shared"})));
}

TEST_F(Add, FindsTheBlockThatTheControllerCreatedForItsNodeBeforeItRefuses) {
  Pool pool = TestPool("two", "10.77.0.0/31");
  pool.block_length = 32;
  pool.block_count = 2;
  Put(pool);
  ASSERT_TRUE(cluster_.Commit(NewBlock(pool, Prefix::Parse("10.77.0.0/32").value(), "n1")));
  ASSERT_TRUE(engine_.Add(Request(1, {"two"})));
  store_.stale_blocks = std::vector<BlockView>{cluster_.blocks.begin()->second};
  ASSERT_TRUE(cluster_.Commit(NewBlock(pool, Prefix::Parse("10.77.0.1/32").value(), "n1")));
  EXPECT_EQ(Texts(engine_.Add(Request(2, {"two"}))), (std::vector<std::string>{"10.77.0.1"}));
}

// A policy refuses all writes of the block 10.77.0.0/28.
struct RefusingStore : ModelBlockStore {
  using ModelBlockStore::ModelBlockStore;
  Expected<BlockView> Edit(const BlockView& seen, const Change& change) override {
    if (seen->cidr != Prefix::Parse("10.77.0.0/28").value()) return ModelBlockStore::Edit(seen, change);
    return Fail(ErrorCode::kInvalid, "a policy refuses it");
  }
};

TEST_F(Add, ClaimsNoBlockIfTheWriteOfTheOnlyBlockWithRoomIsRefused) {
  Pool pool = TestPool("two", "10.77.0.0/27");
  pool.block_length = 28;
  Put(pool);
  ASSERT_TRUE(store_.Create(NewBlock(pool, Prefix::Parse("10.77.0.0/28").value(), "n1")));
  RefusingStore refusing{cluster_, "n1"};
  const auto result = Engine(refusing, runtime_).Add(Request(1, {"two"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(cluster_.blocks.size(), 1U) << "each ADD would claim one";
}

// If a claim fails, its error decides whether the ADD tries another block.
TEST_F(Add, TriesNoOtherBlockIfItsClaimFailsForGood) {
  store_.faults = {Fault::kUnavailable};
  const auto result = engine_.Add(Request(1, {"v4"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(cluster_.blocks.empty());
}

// Somebody else, or a request whose answer was lost, has created the block, and other ADDs have filled it. The hint and
// the pool's status show nothing of this.
TEST_F(Add, ClaimsAnotherBlockIfTheOneThatExistsIsFull) {
  Pool pool = TestPool("two", "10.77.0.0/31");
  pool.block_length = 32;
  pool.block_count = 1;
  pool.claimable = {Prefix::Parse("10.77.0.0/32").value()};
  Put(pool);
  ASSERT_TRUE(engine_.Add(Request(1, {"two"})));
  store_.stale_blocks = std::vector<BlockView>{};
  EXPECT_EQ(Texts(engine_.Add(Request(2, {"two"}))).front(), "10.77.0.1");
}

TEST_F(Add, ClaimsNoMoreBlocksThanThePoolAllowsANode) {
  Pool pool = TestPool("limited", "10.77.0.0/24");
  pool.block_length = 31;
  pool.max_blocks_per_node = 1;
  Put(pool);
  int given = 0;
  while (engine_.Add(Request(given, {"limited"}))) ++given;
  EXPECT_EQ(cluster_.blocks.size(), 1U);
}

TEST_F(Add, GivesEveryAddressOfAPoolOfManyBlocks) {
  Pool pool = TestPool("many", "10.77.0.0/24");
  pool.block_length = 29;
  Put(pool);
  int given = 0;
  while (engine_.Add(Request(given, {"many"}))) ++given;
  EXPECT_EQ(given, 254);
}

TEST_F(Add, ReadsLabelsOnlyForPoolsWithASelector) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  store_.reads = 0;
  ASSERT_TRUE(engine_.Add(Request(2, {"v4"})));
  EXPECT_EQ(store_.reads, 2) << "pools and own blocks";
}

TEST_F(Add, WritesOncePerFamily) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4", "v6"})));
  store_.writes = 0;
  ASSERT_TRUE(engine_.Add(Request(2, {"v4", "v6"})));
  EXPECT_EQ(store_.writes, 2);
}

TEST_F(Add, WritesNothingOnceItsCallerIsGone) {
  runtime_.stop = Error{.code = ErrorCode::kTimeout, .message = "the caller is gone"};
  ASSERT_FALSE(engine_.Add(Request(1, {"v4"})));
  EXPECT_EQ(store_.writes, 0);
}

struct RefusalCase {
  const char* name;
  void (*spoil)(Pool&);
  const char* want;  // a part of the message
};
class AddRefuses : public EngineTest, public testing::WithParamInterface<RefusalCase> {};

TEST_P(AddRefuses, AnUnusablePoolAndSaysWhy) {
  GetParam().spoil(cluster_.pools["v4"]);
  const auto result = engine_.Add(Request(1, {"v4"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  EXPECT_NE(result.error().message.find(GetParam().want), std::string::npos) << result.error().message;
}

constexpr RefusalCase kRefusals[] = {
    {"NotReady",
     [](Pool& pool) {
       pool.ready = false;
       pool.not_ready_reason = "InvalidRange";
     },
     "InvalidRange"},
    {"NeverAccepted", [](Pool& pool) { pool.ready = false; }, "not accepted it yet"},
    {"Disabled", [](Pool& pool) { pool.disabled = true; }, "disabled"},
    {"BeingDeleted", [](Pool& pool) { pool.deleting = true; }, "being deleted"},
    {"OtherNodes",
     [](Pool& pool) {
       pool.node_selector = LabelSelector{{{.key = "zone", .op = LabelRequirement::Operator::kExists, .values = {}}}};
     },
     "not for node n1"},
};
INSTANTIATE_TEST_SUITE_P(Table, AddRefuses, testing::ValuesIn(kRefusals),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(Add, FailsAndNamesAPoolThatDoesNotExist) {
  const auto result = engine_.Add(Request(1, {"v4", "nope"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_NE(result.error().message.find("nope"), std::string::npos);
}

TEST_F(Add, RefusesANamespaceThatThePoolDoesNotSelect) {
  cluster_.namespaces["team-a"] = {{"team", "a"}};
  cluster_.pools["v4"].namespace_selector =
      LabelSelector{{{.key = "team", .op = LabelRequirement::Operator::kIn, .values = {"b"}}}};
  EXPECT_EQ(engine_.Add(Request(1, {"v4"})).error().code, ErrorCode::kInvalid);
}

TEST_F(Add, AdmitsANamespaceThatThePoolSelects) {
  cluster_.namespaces["team-a"] = {{"team", "a"}};
  cluster_.pools["v4"].namespace_selector =
      LabelSelector{{{.key = "team", .op = LabelRequirement::Operator::kIn, .values = {"a"}}}};
  EXPECT_TRUE(engine_.Add(Request(1, {"v4"})));
}

TEST_F(Add, SaysThatTheAnnotationNamesAPoolThatDoesNotExist) {
  AddRequest request = Request(1, {"unknown", "v4"});
  request.by_annotation = {"unknown"};
  const auto refused = engine_.Add(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "pool unknown, which the pod's annotation names, does not exist");
}

TEST_F(Add, RefusesAPoolThatOnlyTheAnnotationNamesAndThatForbidsThis) {
  AddRequest request = Request(1, {"v4"});
  request.by_annotation = {"v4"};
  EXPECT_EQ(engine_.Add(request).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(AllHeld().empty());
  cluster_.pools["v4"].allow_annotation = true;
  EXPECT_TRUE(engine_.Add(request));
}

struct OddBlockCase {
  const char* name;
  const char* cidr;
  const char* space = "default";
};
class OddBlock : public EngineTest, public testing::WithParamInterface<OddBlockCase> {};

// Somebody made the block by hand, or a pool with that name and UID in a backup did: it overlaps blocks that fit the
// pool.
TEST_P(OddBlock, IsNotUsedByAnAdd) {
  Block odd = NewBlock(cluster_.pools["v4"], Prefix::Parse(GetParam().cidr).value(), "n1");
  odd.space = GetParam().space;
  odd.name = BlockName(odd.space, odd.cidr);
  odd.free = odd.size();
  ASSERT_TRUE(cluster_.Commit(odd));
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  EXPECT_TRUE(cluster_.blocks.at(odd.name)->allocations.empty());
}

constexpr OddBlockCase kOddBlocks[] = {
    {"OfASmallerSize", "10.55.0.0/28"},
    {"OfALargerSize", "10.55.0.0/25"},
    {"OutsideTheSubnet", "10.56.0.0/26"},
    {"OfAnotherSpace", "10.55.0.0/26", "blue"},
};
INSTANTIATE_TEST_SUITE_P(Table, OddBlock, testing::ValuesIn(kOddBlocks),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(Del, FreesTheAddressesOfAllFamilies) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4", "v6"})));
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_TRUE(AllHeld().empty());
}

TEST_F(Del, FreesAddressesOfNodeBlocksAndSharedBlocks) {
  ASSERT_TRUE(engine_.Add(Request(1, {"shared", "v6"})));
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_TRUE(AllHeld().empty());
}

TEST_F(Del, FreesASharedAddressThatALaterAddTook) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  ASSERT_TRUE(engine_.Add(Request(1, {"v4", "shared6"})));
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_TRUE(AllHeld().empty());
}

// The configuration changed between the two ADDs.
TEST_F(Del, FreesASharedAddressThatTheAttachmentHadBeforeItsNodeAddress) {
  ASSERT_TRUE(engine_.Add(Request(1, {"shared"})));
  ASSERT_TRUE(engine_.Add(Request(1, {"shared", "v6"})));
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_TRUE(AllHeld().empty());
}

// Whoever has another node's token can copy an attachment into a Shared block, with that node's n=.
TEST_F(Del, FreesOnlyEntriesOfThisNodeInSharedBlocks) {
  ModelBlockStore other{cluster_, "n2"};
  ASSERT_TRUE(Engine(other, runtime_).Add(Request(1, {"shared"})));
  const auto copied = AllHeld();
  const auto added = engine_.Add(Request(1, {"shared"}));
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_TRUE(added->is_new) << "the copy counts as an address of this node's container";
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_EQ(AllHeld(), copied);
}

TEST_F(Del, KeepsTheAddressesOfOtherAttachments) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  ASSERT_TRUE(engine_.Add(Request(2, {"v4"})));
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_EQ(AllHeld().size(), 1U);
}

TEST_F(Del, SucceedsForAnUnknownAttachment) { EXPECT_TRUE(engine_.Del(TestAttachment(1))); }

// While a call waits for its right to claim, somebody deletes the pool, and another call has created a block of the
// pool.
class PoolGoneMeanwhile : public ModelBlockStore {
 public:
  explicit PoolGoneMeanwhile(ModelCluster& cluster) : ModelBlockStore(cluster, "n1"), cluster_(cluster) {}
  Expected<ClaimTurn> BeginClaim(const Pool& pool) override {
    if (!std::exchange(is_first_, false)) return ClaimTurn{};
    const auto cidr = Prefix::Parse("10.55.0.0/26").value();
    EXPECT_TRUE(cluster_.Commit(NewBlock(pool, cidr, "n1")).has_value());
    cluster_.pools.erase(pool.name);
    return ClaimTurn{.look_again = true};
  }

 private:
  ModelCluster& cluster_;
  bool is_first_ = true;
};

TEST_F(Add, TakesNoAddressOfAPoolThatWasDeletedWhileItWaitedToClaim) {
  PoolGoneMeanwhile store(cluster_);
  const auto result = Engine(store, runtime_).Add(Request(1, {"v4"}));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "pool v4 was deleted meanwhile");
  EXPECT_TRUE(AllHeld().empty());
}

TEST_F(Del, SendsTwoRequests) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  store_.reads = store_.writes = 0;
  ASSERT_TRUE(engine_.Del(TestAttachment(1)));
  EXPECT_EQ(store_.reads + store_.writes, 2);
}

TEST_F(Gc, FreesAllAddressesThatAreNotInTheList) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine_.Add(Request(i, {"v4", "shared6"})));
  const auto errors = engine_.CollectGarbage(
      "0123456789ab", [](const HeldEntry& entry) { return entry.attachment == TestAttachment(2); });
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(AllHeld().size(), 2U);
}

TEST_F(Gc, KeepsAddressesOfOtherNetworks) {
  ASSERT_TRUE(engine_.Add(Request(1, {"v4"})));
  ASSERT_TRUE(engine_.CollectGarbage("ffffffffffff", [](const HeldEntry&) { return false; }).empty());
  EXPECT_EQ(AllHeld().size(), 1U);
}

TEST_F(Gc, KeepsAddressesOfOtherNodesInSharedBlocks) {
  ModelBlockStore other{cluster_, "n2"};
  ASSERT_TRUE(Engine(other, runtime_).Add(Request(1, {"shared"})));
  ASSERT_TRUE(engine_.CollectGarbage("0123456789ab", [](const HeldEntry&) { return false; }).empty());
  EXPECT_EQ(AllHeld().size(), 1U);
}

}  // namespace
}  // namespace berth::ipam
