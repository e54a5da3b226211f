// SPDX-License-Identifier: Apache-2.0
// MayClaimAhead: when a node may claim a block in advance. PickClaimByHint: among which blocks a node chooses.
#include "ipam/claim.h"

#include <string>

#include <gtest/gtest.h>

#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

struct AheadCase {
  const char* name;
  const char* subnet;
  Uint128 existing;
  bool is_scarce;
  bool want_unused;
  bool want_used;
};
class ClaimsAhead : public testing::TestWithParam<AheadCase> {};

TEST_P(ClaimsAhead, AsThePoolsStatusAllows) {
  Pool pool = TestPool("p", GetParam().subnet);
  pool.block_count = GetParam().existing;
  pool.is_scarce = GetParam().is_scarce;
  EXPECT_EQ(MayClaimAhead(pool, /*uses_it=*/false), GetParam().want_unused);
  EXPECT_EQ(MayClaimAhead(pool, /*uses_it=*/true), GetParam().want_used);
}

const AheadCase kAheadCases[] = {
    {"NothingExists", "10.55.0.0/24", 0, false, true, true},
    {"JustHalf", "10.55.0.0/24", 2, false, true, true},
    {"OneMore", "10.55.0.0/24", 3, false, false, true},
    {"OneBlockThatIsFree", "10.55.0.0/26", 0, false, true, true},
    {"OneBlockThatExists", "10.55.0.0/26", 1, false, false, true},
    {"MoreThanThePoolHasNow", "10.55.0.0/24", 9, false, false, true},
    {"HalfOfIPv6", "2001:db8::/64", Uint128{1} << 57U, false, true, true},
    {"MoreThanHalfOfIPv6", "2001:db8::/64", (Uint128{1} << 57U) + 1, false, false, true},
    {"ScarceAndNothingExists", "10.55.0.0/24", 0, true, false, false},
    {"ScarceAndFull", "10.55.0.0/24", 4, true, false, false},
};
INSTANTIATE_TEST_SUITE_P(Table, ClaimsAhead, testing::ValuesIn(kAheadCases),
                         [](const auto& c) { return std::string(c.param.name); });

struct HintCase {
  const char* name;
  const char* subnet;
  Uint128 existing;
  Uint128 want;  // among how many blocks the node chooses
};
class PicksByHint : public testing::TestWithParam<HintCase> {};

TEST_P(PicksByHint, AmongAllBlocksUntilHalfOfThemExist) {
  Pool pool = TestPool("p", GetParam().subnet);
  pool.block_count = GetParam().existing;
  pool.claimable = {Prefix::Parse("10.55.0.64/26").value()};
  Uint128 among = 0;
  const auto picked = PickClaimByHint(pool, [&](Uint128 bound) {
    among = bound;
    return Uint128{0};
  });
  EXPECT_EQ(ToString(among), ToString(GetParam().want));
  ASSERT_TRUE(picked.has_value());
  EXPECT_EQ(picked->ToString(), GetParam().want == 1 ? "10.55.0.64/26" : "10.55.0.0/26");
}

const HintCase kHintCases[] = {
    {"NothingExists", "10.55.0.0/24", 0, 4},
    {"FewerThanHalf", "10.55.0.0/24", 1, 4},
    {"JustHalf", "10.55.0.0/24", 2, 1},
    {"MoreThanHalf", "10.55.0.0/24", 3, 1},
    {"JustHalfOfEight", "10.55.0.0/23", 4, 1},
    {"FewerThanHalfOfEight", "10.55.0.0/23", 3, 8},
};
INSTANTIATE_TEST_SUITE_P(Table, PicksByHint, testing::ValuesIn(kHintCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::ipam
