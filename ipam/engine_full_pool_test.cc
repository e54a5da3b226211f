// SPDX-License-Identifier: Apache-2.0
// Engine: ADDs that find all of their pools full, and ADDs that cannot give back the address of a claim.
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

class FullPool : public EngineTest {
 protected:
  void PutFull(const std::string& name, const std::string& subnet, int number) {
    Put(TestPool(name, subnet));
    ASSERT_TRUE(engine_.Add(Request(number, {name})));
  }
};

// Counts consistent lists of blocks.
struct CountingStore : ModelBlockStore {
  using ModelBlockStore::ModelBlockStore;
  Expected<std::vector<BlockView>> ReadBlocks(BlockScope scope, Freshness freshness) override {
    consistent_lists += freshness == Freshness::kLatest ? 1 : 0;
    return ModelBlockStore::ReadBlocks(scope, freshness);
  }
  int consistent_lists = 0;
};

TEST_F(FullPool, CostsNoConsistentListIfALaterPoolHasAFreeAddress) {
  PutFull("tiny1", "10.77.0.0/32", 1);
  PutFull("tiny2", "10.78.0.0/32", 2);
  CountingStore store{cluster_, "n1"};
  ASSERT_TRUE(Engine(store, runtime_).Add(Request(3, {"tiny1", "tiny2", "v4"})));
  EXPECT_EQ(store.consistent_lists, 0);
}

TEST_F(FullPool, CostsOneConsistentListForAllPoolsOfTheFamily) {
  PutFull("tiny1", "10.77.0.0/32", 1);
  PutFull("tiny2", "10.78.0.0/32", 2);
  CountingStore store{cluster_, "n1"};
  const auto result = Engine(store, runtime_).Add(Request(3, {"tiny1", "tiny2"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(store.consistent_lists, 1);
}

// Trusts the pool that the call passes, as the agent's store does. While a call waits for its right to claim, somebody
// reserves 10.77.0.0, and then the controller creates the pool's only block for this node.
class TrustingStore : public ModelBlockStore {
 public:
  explicit TrustingStore(ModelCluster& cluster) : ModelBlockStore(cluster, "n1"), cluster_(cluster) {}
  Expected<PoolView> PoolOf(const PoolView& pool, const BlockView& /*block*/) override { return pool; }
  Expected<ClaimTurn> BeginClaim(const Pool& pool) override {
    Pool& stored = cluster_.pools[pool.name];
    stored.withheld = {AddressRange::Parse("10.77.0.0").value()};
    EXPECT_TRUE(cluster_.Commit(NewBlock(stored, stored.subnet, "n1")));
    return ClaimTurn{.is_all_claimed = true};
  }

 private:
  ModelCluster& cluster_;
};

TEST_F(FullPool, GivesNoAddressThatWasReservedBeforeItsBlockWasCreated) {
  Put(TestPool("two", "10.77.0.0/31"));
  TrustingStore store(cluster_);
  EXPECT_EQ(Texts(Engine(store, runtime_).Add(Request(1, {"two"}))), std::vector<std::string>{"10.77.0.1"});
}

}  // namespace
}  // namespace berth::ipam
