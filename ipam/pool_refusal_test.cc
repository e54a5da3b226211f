// SPDX-License-Identifier: Apache-2.0
// WhyNotAssignable: each reason for which a pool does not give a requested address.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ipam/pool.h"
#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

struct RefusedAddressCase {
  const char* name;
  const char* address;
  std::function<void(Pool&)> change;
  ErrorCode code;
  const char* want;  // the end of the message
};
class RefusedAddress : public testing::TestWithParam<RefusedAddressCase> {};

TEST_P(RefusedAddress, IsExplained) {
  Pool pool;
  pool.name = "web";
  pool.subnet = PrefixOf("10.55.0.0/24");
  if (GetParam().change) GetParam().change(pool);
  const Error error = WhyNotAssignable(pool, AddressOf(GetParam().address));
  EXPECT_EQ(error.code, GetParam().code);
  EXPECT_THAT(error.message, testing::EndsWith(GetParam().want));
}

const RefusedAddressCase kRefusedAddresses[] = {
    {"Outside", "10.56.0.7", {}, ErrorCode::kInvalid, "is outside pool web (10.55.0.0/24)"},
    {"Gateway",
     "10.55.0.1",
     [](Pool& p) { p.gateway = AddressOf("10.55.0.1"); },
     ErrorCode::kAddressTaken,
     "is the gateway of pool web"},
    {"Withheld",
     "10.55.0.7",
     [](Pool& p) { p.withheld = {RangeOf("10.55.0.3"), RangeOf("10.55.0.7")}; },
     ErrorCode::kAddressTaken,
     "is reserved, or is a gateway, in space default"},
    {"Excluded",
     "10.55.0.7",
     [](Pool& p) { p.excludes = {RangeOf("10.55.0.3"), RangeOf("10.55.0.7")}; },
     ErrorCode::kInvalid,
     "is in spec.exclude of pool web"},
    {"OutsideTheRanges",
     "10.55.0.7",
     [](Pool& p) { p.ranges = {RangeOf("10.55.0.3"), RangeOf("10.55.0.8-10.55.0.9")}; },
     ErrorCode::kInvalid,
     "is outside spec.ranges of pool web"},
    {"EdgeThatARangeContains",
     "10.55.0.0",
     [](Pool& p) { p.ranges = {RangeOf("10.55.0.0-10.55.0.9")}; },
     ErrorCode::kInvalid,
     "is the first or last address of subnet 10.55.0.0/24"},
    {"Edge", "10.55.0.255", {}, ErrorCode::kInvalid, "is the first or last address of subnet 10.55.0.0/24"},
};
INSTANTIATE_TEST_SUITE_P(Table, RefusedAddress, testing::ValuesIn(kRefusedAddresses),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::ipam
