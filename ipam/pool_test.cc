// SPDX-License-Identifier: Apache-2.0
// Pool: which addresses are assignable, rule by rule, and how the pool is divided into blocks.
#include "ipam/pool.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

Pool PoolOf(const char* subnet) {
  Pool pool;
  pool.name = "web";
  pool.subnet = PrefixOf(subnet);
  return pool;
}

std::string Text(const IntervalSet& set) {
  std::string text;
  for (const AddressRange& range : set.ranges()) text += (text.empty() ? "" : " ") + range.ToString();
  return text;
}

struct AssignableCase {
  const char* name;
  const char* subnet;
  std::function<void(Pool&)> change;
  const char* want;
};
class PoolAssignable : public testing::TestWithParam<AssignableCase> {
 protected:
  static Pool Make() {
    Pool pool = PoolOf(GetParam().subnet);
    if (GetParam().change) GetParam().change(pool);
    return pool;
  }
};

TEST_P(PoolAssignable, IsWhatTheRulesLeave) { EXPECT_EQ(Text(Assignable(Make())), GetParam().want); }

TEST_P(PoolAssignable, OfItsSubnetIsAllOfIt) {
  const Pool pool = Make();
  EXPECT_EQ(AssignableIn(pool, pool.subnet), Assignable(pool));
}

const AssignableCase kAssignableCases[] = {
    {"EdgesAreKeptBack", "10.55.0.0/24", {}, "10.55.0.1-10.55.0.254"},
    {"EdgesOfIPv6AreKeptBack", "2001:db8::/120", {}, "2001:db8::1-2001:db8::fe"},
    {"EdgesOfFour", "10.55.0.0/30", {}, "10.55.0.1-10.55.0.2"},
    {"PairHasNoEdges", "10.55.0.0/31", {}, "10.55.0.0/31"},
    {"PairOfIPv6HasNoEdges", "2001:db8::/127", {}, "2001:db8::/127"},
    {"SingleHasNoEdges", "10.55.0.9/32", {}, "10.55.0.9"},
    {"SingleOfIPv6HasNoEdges", "2001:db8::9/128", {}, "2001:db8::9"},
    {"EdgesOnDemand", "10.55.0.0/24", [](Pool& p) { p.allow_edge_addresses = true; }, "10.55.0.0/24"},
    {"WholeIPv4", "0.0.0.0/0", {}, "0.0.0.1-255.255.255.254"},
    {"WholeIPv4WithEdges", "0.0.0.0/0", [](Pool& p) { p.allow_edge_addresses = true; }, "0.0.0.0/0"},
    {"MappedIsNoIPv6",
     "::/0",
     [](Pool& p) { p.ranges = {{AddressOf("::fffe:ffff:fff0"), Address::FromBits(Family::kIPv6, Uint128{1} << 48)}}; },
     "::fffe:ffff:fff0/124 ::1:0:0:0"},
    {"GatewayIsKeptBack",
     "10.55.0.0/29",
     [](Pool& p) { p.gateway = AddressOf("10.55.0.3"); },
     "10.55.0.1-10.55.0.2 10.55.0.4-10.55.0.6"},
    {"RangesOnly",
     "10.55.0.0/24",
     [](Pool& p) { p.ranges = {RangeOf("10.55.0.100-10.55.0.109"), RangeOf("10.55.0.16/29")}; },
     "10.55.0.16/29 10.55.0.100-10.55.0.109"},
    {"EdgesInARangeAreKeptBack",
     "10.55.0.0/24",
     [](Pool& p) { p.ranges = {RangeOf("10.55.0.0-10.55.0.3"), RangeOf("10.55.0.250-10.55.0.255")}; },
     "10.55.0.1-10.55.0.3 10.55.0.250-10.55.0.254"},
    {"EndsOfARangeAreNoEdges", "10.55.0.0/24", [](Pool& p) { p.ranges = {RangeOf("10.55.0.64/26")}; }, "10.55.0.64/26"},
    {"ExcludesAreKeptBack",
     "10.55.0.0/28",
     [](Pool& p) { p.excludes = {RangeOf("10.55.0.0/30"), RangeOf("10.55.0.8"), RangeOf("10.55.0.8-10.55.0.9")}; },
     "10.55.0.4/30 10.55.0.10-10.55.0.14"},
    {"WithheldAreKeptBack",
     "10.55.0.0/28",
     [](Pool& p) { p.withheld = {RangeOf("10.55.0.5"), RangeOf("10.55.0.7-10.55.1.9"), RangeOf("2001:db8::9")}; },
     "10.55.0.1-10.55.0.4 10.55.0.6"},
    {"RangesAreCutToTheSubnet",
     "10.55.0.0/28",
     [](Pool& p) { p.ranges = {RangeOf("10.55.0.10-10.55.0.40"), RangeOf("2001:db8::/64")}; },
     "10.55.0.10-10.55.0.14"},
    {"NothingIsLeft", "10.55.0.0/28", [](Pool& p) { p.excludes = {RangeOf("10.55.0.0/24")}; }, ""},
};
INSTANTIATE_TEST_SUITE_P(Table, PoolAssignable, testing::ValuesIn(kAssignableCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Pool, AssignableInABlockIsOfThatBlockOnly) {
  Pool pool = PoolOf("10.55.0.0/24");
  pool.excludes = {RangeOf("10.55.0.60-10.55.0.70")};
  EXPECT_EQ(Text(AssignableIn(pool, PrefixOf("10.55.0.0/26"))), "10.55.0.1-10.55.0.59");
  EXPECT_EQ(Text(AssignableIn(pool, PrefixOf("10.55.0.64/26"))), "10.55.0.71-10.55.0.127");
  EXPECT_EQ(Text(AssignableIn(pool, PrefixOf("10.55.0.128/26"))), "10.55.0.128/26");
}

TEST(Pool, AssignableInABlockElsewhereIsNothing) {
  EXPECT_TRUE(AssignableIn(PoolOf("10.55.0.0/24"), PrefixOf("10.55.1.0/26")).empty());
  EXPECT_TRUE(AssignableIn(PoolOf("10.55.0.0/24"), PrefixOf("2001:db8::/122")).empty());
}

struct LengthCase {
  const char* name;
  const char* subnet;
  std::optional<int> block_size;
  int want;
};
class PoolBlockLength : public testing::TestWithParam<LengthCase> {};

TEST_P(PoolBlockLength, IsTheEffectiveOne) {
  Pool pool = PoolOf(GetParam().subnet);
  pool.block_length = GetParam().block_size;
  EXPECT_EQ(pool.BlockLength(), GetParam().want);
}

constexpr LengthCase kLengthCases[] = {
    {"DefaultIPv4", "10.55.0.0/16", std::nullopt, 26},
    {"DefaultIPv6", "2001:db8::/64", std::nullopt, 122},
    {"Given", "10.55.0.0/16", 28, 28},
    {"Single", "10.55.0.0/16", 32, 32},
    {"Largest", "2001:db8::/64", 120, 120},
    {"SmallSubnetIsOneBlock", "10.55.0.0/29", std::nullopt, 29},
    {"SubnetAsLongAsTheBlock", "10.55.0.0/26", 26, 26},
    {"SubnetLongerThanGiven", "2001:db8::/127", 120, 127},
    {"TooShortIsTheShortestLegal", "10.0.0.0/8", 9, 24},
    {"TooLongIsTheLongestLegal", "10.0.0.0/8", 33, 32},
    {"NegativeIsTheShortestLegal", "::/0", -1, 120},
};
INSTANTIATE_TEST_SUITE_P(Table, PoolBlockLength, testing::ValuesIn(kLengthCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Pool, BlockOfAnAddressIsTheOneItLiesIn) {
  EXPECT_EQ(BlockOf(PoolOf("10.55.0.0/16"), AddressOf("10.55.3.200")), PrefixOf("10.55.3.192/26"));
  EXPECT_EQ(BlockOf(PoolOf("10.55.3.200/30"), AddressOf("10.55.3.203")), PrefixOf("10.55.3.200/30"));
  EXPECT_EQ(BlockOf(PoolOf("::/0"), AddressOf("2001:db8::7f")), PrefixOf("2001:db8::40/122"));
}

TEST(PoolDeathTest, BlockOfAnAddressElsewhereIsAProgrammersError) {
  EXPECT_DEATH((void)BlockOf(PoolOf("10.55.0.0/16"), AddressOf("10.56.0.0")), "check failed");
}

TEST(Pool, MaskInTheResultIsTheSubnetsUnlessGiven) {
  Pool pool = PoolOf("10.55.4.0/24");
  EXPECT_EQ(pool.ResultLength(), 24);
  pool.result_length = 16;
  EXPECT_EQ(pool.ResultLength(), 16);
}

}  // namespace
}  // namespace berth::ipam
