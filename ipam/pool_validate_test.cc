// SPDX-License-Identifier: Apache-2.0
// Validate: each rule with the whole message for people, and pools that are just valid.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "ipam/pool.h"
#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

struct PoolCase {
  const char* name;
  const char* subnet;
  std::function<void(Pool&)> change;
  const char* want;  // the message; "": the pool is valid
};
class PoolValidate : public testing::TestWithParam<PoolCase> {};

TEST_P(PoolValidate, NamesFieldValueAndRemedy) {
  Pool pool;
  pool.subnet = PrefixOf(GetParam().subnet);
  if (GetParam().change) GetParam().change(pool);
  const auto valid = Validate(pool);
  EXPECT_EQ(valid ? "" : valid.error().message, GetParam().want);
  if (!valid) {
    EXPECT_EQ(valid.error().code, ErrorCode::kInvalid);
  }
}

const PoolCase kGoodPools[] = {
    {"SubnetOnly", "10.55.0.0/16", {}, ""},
    {"PairWithoutRouter", "10.55.0.0/31", {}, ""},
    {"Single", "2001:db8::9/128", {}, ""},
    {"AllIPv6", "::/0", {}, ""},
    {"RangesThatTouch",
     "10.55.0.0/24",
     [](Pool& p) { p.ranges = {RangeOf("10.55.0.10-10.55.0.19"), RangeOf("10.55.0.1-10.55.0.9")}; },
     ""},
    {"ExcludesThatOverlap",
     "10.55.0.0/24",
     [](Pool& p) { p.excludes = {RangeOf("10.55.0.0/25"), RangeOf("10.55.0.9")}; },
     ""},
    {"GatewayInTheRange", "10.55.0.0/24", [](Pool& p) { p.gateway = AddressOf("10.55.0.1"); }, ""},
    {"GatewayOfTheNetworkThatTheSubnetIsAPartOf",
     "10.55.4.0/24",
     [](Pool& p) {
       p.gateway = AddressOf("10.55.0.1");
       p.result_length = 16;
     },
     ""},
    {"GatewayInTheSubnetThoughTheMaskIsOfOneAddress",
     "10.55.0.0/24",
     [](Pool& p) {
       p.gateway = AddressOf("10.55.0.1");
       p.result_length = 32;
     },
     ""},
    {"RouteWithoutGateway", "10.55.0.0/24", [](Pool& p) { p.routes = {{.destination = PrefixOf("::/0")}}; }, ""},
    {"EverythingReserved", "10.55.0.0/24", [](Pool& p) { p.withheld = {RangeOf("10.55.0.0/24")}; }, ""},
    {"BlockLargerThanSubnet", "10.55.0.0/29", [](Pool& p) { p.block_length = 24; }, ""},
    {"BlocksOfOneAddress", "10.55.0.0/24", [](Pool& p) { p.block_length = 32; }, ""},
    {"MaskOfAll", "10.55.0.0/24", [](Pool& p) { p.result_length = 0; }, ""},
};
INSTANTIATE_TEST_SUITE_P(Good, PoolValidate, testing::ValuesIn(kGoodPools),
                         [](const auto& c) { return std::string(c.param.name); });

const PoolCase kBadPools[] = {
    {"BlockTooLarge",
     "10.55.0.0/16",
     [](Pool& p) { p.block_length = 23; },
     R"(spec.blockSize "23": blocks of an IPv4 pool are /24 to /32; write such a length, )"
     "or leave spec.blockSize out to use /26"},
    {"BlockLengthOfTheOtherFamily",
     "2001:db8::/64",
     [](Pool& p) { p.block_length = 26; },
     R"(spec.blockSize "26": blocks of an IPv6 pool are /120 to /128; write such a length, )"
     "or leave spec.blockSize out to use /122"},
    {"BlockLengthTooLong",
     "2001:db8::/64",
     [](Pool& p) { p.block_length = 129; },
     R"(spec.blockSize "129": blocks of an IPv6 pool are /120 to /128; write such a length, )"
     "or leave spec.blockSize out to use /122"},
    {"PrefixLengthOfTheOtherFamily",
     "10.55.0.0/16",
     [](Pool& p) { p.result_length = 64; },
     R"(spec.prefixLength "64": not a prefix length; write a number from 0 to 32, )"
     "or leave spec.prefixLength out to use the length of spec.subnet"},
    {"RangeBackwards",
     "10.1.0.0/16",
     [](Pool& p) { p.ranges = {RangeOf("10.1.0.1"), {AddressOf("10.1.0.9"), AddressOf("10.1.0.3")}}; },
     R"(spec.ranges[1] "10.1.0.9-10.1.0.3": ends before it starts; swap the two addresses)"},
    {"RangeOfTheOtherFamily",
     "10.55.0.0/16",
     [](Pool& p) { p.ranges = {RangeOf("2001:db8::/64")}; },
     R"(spec.ranges[0] "2001:db8::/64": not IPv4 like spec.subnet 10.55.0.0/16; )"
     "the other family needs a pool of its own"},
    {"RangeOfBothFamilies",
     "10.55.0.0/16",
     [](Pool& p) { p.ranges = {{AddressOf("10.55.0.1"), AddressOf("2001:db8::")}}; },
     R"(spec.ranges[0] "10.55.0.1-2001:db8::": not IPv4 like spec.subnet 10.55.0.0/16; )"
     "the other family needs a pool of its own"},
    {"RangeOutside",
     "10.55.0.0/16",
     [](Pool& p) { p.ranges = {RangeOf("10.56.0.0/24")}; },
     R"(spec.ranges[0] "10.56.0.0/24": not inside spec.subnet 10.55.0.0/16; )"
     "shorten the range to the part inside, or leave the range out"},
    {"RangeThatReachesOut",
     "10.55.0.0/16",
     [](Pool& p) { p.ranges = {RangeOf("10.55.255.0-10.56.0.0")}; },
     R"(spec.ranges[0] "10.55.255.0-10.56.0.0": not inside spec.subnet 10.55.0.0/16; )"
     "shorten the range to the part inside, or leave the range out"},
    {"RangesThatOverlap",
     "10.55.0.0/16",
     [](Pool& p) { p.ranges = {RangeOf("10.55.9.0/24"), RangeOf("10.55.1.0/24"), RangeOf("10.55.8.0-10.55.9.0")}; },
     R"(spec.ranges[2] "10.55.8.0-10.55.9.0": overlaps spec.ranges[0] "10.55.9.0/24"; )"
     "make them one range or shorten one"},
    {"RangeTwice",
     "10.55.0.0/16",
     [](Pool& p) { p.ranges = {RangeOf("10.55.9.0/24"), RangeOf("10.55.9.0/24")}; },
     R"(spec.ranges[1] "10.55.9.0/24": overlaps spec.ranges[0] "10.55.9.0/24"; make them one range or shorten one)"},
    {"ExcludeOutside",
     "10.55.0.0/16",
     [](Pool& p) { p.excludes = {RangeOf("10.55.0.9"), RangeOf("10.54.255.255")}; },
     R"(spec.exclude[1] "10.54.255.255": not inside spec.subnet 10.55.0.0/16; )"
     "shorten the range to the part inside, or leave the range out"},
    {"GatewayOutside",
     "10.55.0.0/16",
     [](Pool& p) { p.gateway = AddressOf("10.56.0.1"); },
     R"(spec.gateway "10.56.0.1": not inside 10.55.0.0/16, the network of spec.subnet without spec.prefixLength; )"
     "pods could not reach this gateway: correct one of these fields"},
    {"GatewayOutsideTheWiderNetwork",
     "10.55.4.0/24",
     [](Pool& p) {
       p.gateway = AddressOf("10.56.0.1");
       p.result_length = 16;
     },
     R"(spec.gateway "10.56.0.1": not inside 10.55.0.0/16, the network of spec.subnet and spec.prefixLength; )"
     "pods could not reach this gateway: correct one of these fields"},
    {"GatewayOfTheOtherFamily",
     "10.55.0.0/16",
     [](Pool& p) { p.gateway = AddressOf("2001:db8::1"); },
     R"(spec.gateway "2001:db8::1": not IPv4 like spec.subnet 10.55.0.0/16; the other family needs a pool of its own)"},
    {"RouteGatewayOfTheOtherFamily",
     "10.55.0.0/16",
     [](Pool& p) { p.routes = {{.destination = PrefixOf("::/0"), .gateway = AddressOf("10.55.0.1")}}; },
     R"(spec.routes[0].gw "10.55.0.1": not IPv6 like dst ::/0; correct one of the two)"},
    {"NothingLeft",
     "10.55.0.0/30",
     [](Pool& p) {
       p.gateway = AddressOf("10.55.0.1");
       p.excludes = {RangeOf("10.55.0.2")};
     },
     R"(spec.subnet "10.55.0.0/30": spec.exclude, spec.gateway and the subnet's first and last address leave )"
     "no address for pods; widen spec.ranges, shorten spec.exclude or set spec.allowEdgeAddresses"},
};
INSTANTIATE_TEST_SUITE_P(Bad, PoolValidate, testing::ValuesIn(kBadPools),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::ipam
