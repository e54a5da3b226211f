// SPDX-License-Identifier: Apache-2.0
// Which blocks are claimed, and when a node that needs none holds back.
#include "ipam/claim.h"

#include <string>

#include <gtest/gtest.h>

#include "ipam/engine_test_setup.h"

namespace berth::ipam {
namespace {

struct HalfCase {
  const char* name;
  const char* subnet;
  Uint128 existing;
  bool want;
};
class HalfFree : public testing::TestWithParam<HalfCase> {};

TEST_P(HalfFree, IsCountedByThePoolsStatus) {
  Pool pool = TestPool("p", GetParam().subnet);
  pool.block_count = GetParam().existing;
  EXPECT_EQ(IsHalfFree(pool), GetParam().want);
}

const HalfCase kHalfCases[] = {
    {"NothingExists", "10.55.0.0/24", 0, true},
    {"JustHalf", "10.55.0.0/24", 2, true},
    {"OneMore", "10.55.0.0/24", 3, false},
    {"OneBlockThatIsFree", "10.55.0.0/26", 0, true},
    {"OneBlockThatExists", "10.55.0.0/26", 1, false},
    {"MoreThanThePoolHasNow", "10.55.0.0/24", 9, false},
    {"HalfOfIPv6", "2001:db8::/64", Uint128{1} << 57U, true},
    {"MoreThanHalfOfIPv6", "2001:db8::/64", (Uint128{1} << 57U) + 1, false},
};
INSTANTIATE_TEST_SUITE_P(Table, HalfFree, testing::ValuesIn(kHalfCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::ipam
