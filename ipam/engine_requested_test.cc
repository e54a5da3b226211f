// SPDX-License-Identifier: Apache-2.0
// Engine: an ADD that requests an address, with a model cluster without faults.
#include <string>
#include <utility>
#include <vector>

#include "ipam/engine.h"
#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

class RequestedAddress : public EngineTest {
 protected:
  static AddRequest RequestFor(int number, std::vector<std::string> pools, const std::vector<const char*>& addresses) {
    AddRequest request = Request(number, std::move(pools));
    for (const char* address : addresses) request.requested.push_back(Address::Parse(address).value());
    return request;
  }
};

TEST_F(RequestedAddress, IsGiven) {
  EXPECT_EQ(Texts(engine_.Add(RequestFor(1, {"v4"}, {"10.55.0.77"}))).front(), "10.55.0.77");
}

TEST_F(RequestedAddress, CausesNoMoreBlocksThanThePoolAllowsANode) {
  Pool pool = TestPool("limited", "10.77.0.0/24");
  pool.block_length = 31;
  pool.max_blocks_per_node = 1;
  Put(pool);
  ASSERT_EQ(Texts(engine_.Add(RequestFor(1, {"limited"}, {"10.77.0.8"}))).front(), "10.77.0.8");
  EXPECT_FALSE(engine_.Add(RequestFor(2, {"limited"}, {"10.77.0.18"})));
  EXPECT_EQ(Texts(engine_.Add(RequestFor(2, {"limited"}, {"10.77.0.9"}))).front(), "10.77.0.9")
      << "of the block that the node has";
  EXPECT_EQ(cluster_.blocks.size(), 1U);
}

TEST_F(RequestedAddress, OfAnotherNodesBlockIsRefused) {
  Put(TestPool("one-block", "10.77.0.0/28"));
  ModelBlockStore other{cluster_, "n2"};
  ASSERT_TRUE(Engine(other, runtime_).Add(Request(1, {"one-block"})));
  EXPECT_EQ(engine_.Add(RequestFor(2, {"one-block"}, {"10.77.0.9"})).error().code, ErrorCode::kAddressTaken);
}

TEST_F(RequestedAddress, IsGivenFromALaterPoolIfTheBlockBelongsToIt) {
  Put(TestPool("other", "10.66.0.0/28"));
  ASSERT_TRUE(engine_.Add(Request(1, {"shared"})));  // claims the only block
  EXPECT_EQ(Texts(engine_.Add(RequestFor(2, {"other", "shared"}, {"10.66.0.7"}))),
            std::vector<std::string>{"10.66.0.7"});
}

TEST_F(RequestedAddress, IsGivenFromALaterPoolBehindAPoolOfAnotherSpace) {
  Put(TestPool("other", "10.66.0.0/28"));
  Pool blue = TestPool("blue", "10.66.0.0/28");
  blue.space = "blue";
  Put(blue);
  ASSERT_TRUE(engine_.Add(Request(1, {"shared"})));
  ASSERT_EQ(Texts(engine_.Add(RequestFor(2, {"other", "blue", "shared"}, {"10.66.0.7"}))),
            std::vector<std::string>{"10.66.0.7"});
  EXPECT_EQ(engine_.Held(TestAttachment(2))->front().pool, "shared");
}

TEST_F(RequestedAddress, IsNotTriedInALaterPoolAfterALostAnswer) {
  Put(TestPool("other", "10.55.0.0/24"));
  ASSERT_TRUE(engine_.Add(RequestFor(1, {"v4"}, {"10.55.0.7"})));
  store_.faults = {Fault::kLostAfterCommit};
  const auto second = engine_.Add(RequestFor(2, {"v4", "other"}, {"10.55.0.8"}));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnknownOutcome);
}

TEST_F(RequestedAddress, IsFoundInEachBlockOfTheNode) {
  Pool pool = TestPool("two", "10.77.0.0/30");
  pool.block_length = 31;
  Put(pool);
  for (const char* cidr : {"10.77.0.0/31", "10.77.0.2/31"}) {
    ASSERT_TRUE(cluster_.Commit(NewBlock(pool, Prefix::Parse(cidr).value(), "n1")));
  }
  for (const char* address : {"10.77.0.1", "10.77.0.2"}) {
    EXPECT_EQ(Texts(engine_.Add(RequestFor(address[8], {"two"}, {address}))).front(), address);
  }
}

TEST_F(RequestedAddress, ThatAPodHasIsRefusedWithTheReasonOfEachPool) {
  Put(TestPool("other", "10.66.0.0/28"));
  ASSERT_TRUE(engine_.Add(RequestFor(1, {"other", "shared"}, {"10.66.0.7"})));
  const auto second = engine_.Add(RequestFor(2, {"other", "shared"}, {"10.66.0.7"}));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAddressTaken);
  EXPECT_EQ(second.error().message,
            "requested address 10.66.0.7 is taken (block 10.66.0.0-28); requested address 10.66.0.7 lies in block "
            "10.66.0.0/28, which belongs to another node or pool");
}

TEST_F(RequestedAddress, ThatAPodHasIsNotGivenFromAnotherSpace) {
  Pool other = TestPool("other", "10.66.0.0/28");
  other.space = "blue";
  Put(other);
  ASSERT_TRUE(engine_.Add(RequestFor(1, {"shared", "other"}, {"10.66.0.7"})));
  const auto second = engine_.Add(RequestFor(2, {"shared", "other"}, {"10.66.0.7"}));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAddressTaken);
}

TEST_F(RequestedAddress, IsGivenFromThePoolWhoseSubnetContainsIt) {
  Put(TestPool("other", "10.77.0.0/24"));
  EXPECT_EQ(Texts(engine_.Add(RequestFor(1, {"v4", "other"}, {"10.77.0.7"}))), std::vector<std::string>{"10.77.0.7"});
}

TEST_F(RequestedAddress, IsGivenFromThePoolThatDoesNotExcludeIt) {
  Pool other = TestPool("other", "10.55.0.0/24");
  other.excludes = {AddressRange::Parse("10.55.0.7").value()};
  Put(other);
  EXPECT_EQ(Texts(engine_.Add(RequestFor(1, {"other", "v4"}, {"10.55.0.7"}))), std::vector<std::string>{"10.55.0.7"});
}

TEST_F(RequestedAddress, OfAFamilyIsAtMostOne) {
  EXPECT_EQ(engine_.Add(RequestFor(1, {"v4"}, {"10.55.0.7", "10.55.0.8"})).error().code, ErrorCode::kInvalid);
}

TEST_F(RequestedAddress, IsRefusedIfThePoolAllowsNoRequests) {
  cluster_.pools["v4"].allow_requests = false;
  EXPECT_EQ(engine_.Add(RequestFor(1, {"v4"}, {"10.55.0.7"})).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace berth::ipam
