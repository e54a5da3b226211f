// SPDX-License-Identifier: Apache-2.0
// ResultJson: the exact text for each version, because other programs decode it.
#include "cni/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

ipam::Address A(std::string_view text) { return ipam::Address::Parse(text).value(); }
ipam::Prefix P(std::string_view text) { return ipam::Prefix::Parse(text).value(); }

Result DualStack() {
  Result result;
  result.addresses = {{.address = A("10.1.2.3"), .prefix_length = 24, .gateway = A("10.1.2.1")},
                      {.address = A("2001:db8::3"), .prefix_length = 64, .gateway = std::nullopt}};
  ipam::Route v4;
  v4.destination = P("0.0.0.0/0");
  ipam::Route v6;
  v6.destination = P("2001:db8:1::/48");
  v6.gateway = A("2001:db8::1");
  v6.mtu = 1400;
  v6.scope = 0;
  result.routes = {v4, v6};
  return result;
}

struct ShapeCase {
  const char* name;
  Version version;
  const char* want;
};
class ResultShape : public testing::TestWithParam<ShapeCase> {};

TEST_P(ResultShape, IsThatOfTheVersion) {
  EXPECT_EQ(ResultJson(DualStack(), GetParam().version).value(), GetParam().want);
}

constexpr const char* kOld =
    R"("ip4":{"ip":"10.1.2.3/24","gateway":"10.1.2.1","routes":[{"dst":"0.0.0.0/0"}]},)"
    R"("ip6":{"ip":"2001:db8::3/64","routes":[{"dst":"2001:db8:1::/48","gw":"2001:db8::1"}]}})";

const std::vector<ShapeCase>& ShapeCases() {
  static const std::string kV010 = std::string(R"({"cniVersion":"0.1.0",)") + kOld;
  static const std::string kV020 = std::string(R"({"cniVersion":"0.2.0",)") + kOld;
  static const std::vector<ShapeCase> kCases = {
      {"V010", Version::k0_1_0, kV010.c_str()},
      {"V020", Version::k0_2_0, kV020.c_str()},
      {"V031",
       Version::k0_3_1,
       R"({"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.1.2.3/24","gateway":"10.1.2.1"},)"
       R"({"version":"6","address":"2001:db8::3/64"}],)"
       R"("routes":[{"dst":"0.0.0.0/0"},{"dst":"2001:db8:1::/48","gw":"2001:db8::1"}]})"},
      {"V100",
       Version::k1_0_0,
       R"({"cniVersion":"1.0.0","ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1"},{"address":"2001:db8::3/64"}],)"
       R"("routes":[{"dst":"0.0.0.0/0"},{"dst":"2001:db8:1::/48","gw":"2001:db8::1"}]})"},
      {"V110",
       Version::k1_1_0,
       R"({"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1"},{"address":"2001:db8::3/64"}],)"
       R"("routes":[{"dst":"0.0.0.0/0"},{"dst":"2001:db8:1::/48","gw":"2001:db8::1","mtu":1400,"scope":0}]})"},
  };
  return kCases;
}
INSTANTIATE_TEST_SUITE_P(Table, ResultShape, testing::ValuesIn(ShapeCases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Result, VersionFieldStandsFrom030To040Only) {
  for (const Version version : kVersions) {
    const bool has = ResultJson(DualStack(), version)->find(R"("version":)") != std::string::npos;
    EXPECT_EQ(has, version >= Version::k0_3_0 && version <= Version::k0_4_0) << ToString(version);
  }
}

TEST(Result, NoVersionHasInterfaces) {
  for (const Version version : kVersions) {
    EXPECT_THAT(ResultJson(DualStack(), version).value(), testing::Not(testing::HasSubstr("interface")));
  }
}

TEST(Result, DnsIsPrintedIfThereIsSome) {
  Result result = DualStack();
  result.dns = {.nameservers = {"10.1.2.1"}, .domain = "example.org", .search = {}, .options = {"ndots:5"}};
  EXPECT_THAT(ResultJson(result, Version::k1_0_0).value(),
              testing::HasSubstr(R"("dns":{"nameservers":["10.1.2.1"],"domain":"example.org","options":["ndots:5"]})"));
  EXPECT_THAT(ResultJson(DualStack(), Version::k1_0_0).value(), testing::Not(testing::HasSubstr("dns")));
}

TEST(Result, RoutesToOneDestinationThroughTwoGatewaysAreBothKept) {
  Result result = DualStack();
  result.routes.resize(1);
  result.routes.push_back(result.routes[0]);
  result.routes[1].gateway = A("10.1.2.9");
  EXPECT_THAT(ResultJson(result, Version::k1_1_0).value(),
              testing::HasSubstr(R"([{"dst":"0.0.0.0/0"},{"dst":"0.0.0.0/0","gw":"10.1.2.9"}])"));
}

TEST(Result, OldVersionsDropRoutesOfAFamilyWithoutAddress) {
  Result result = DualStack();
  result.addresses.erase(result.addresses.begin());
  EXPECT_EQ(ResultJson(result, Version::k0_1_0).value(),
            R"({"cniVersion":"0.1.0","ip6":{"ip":"2001:db8::3/64",)"
            R"("routes":[{"dst":"2001:db8:1::/48","gw":"2001:db8::1"}]}})");
}

TEST(Result, OldVersionsRefuseTwoAddressesOfOneFamily) {
  Result result = DualStack();
  result.addresses[1] = {.address = A("10.1.2.4"), .prefix_length = 24, .gateway = std::nullopt};
  const auto got = ResultJson(result, Version::k0_2_0);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(got.error().message, "CNI version 0.2.0 does not support more than 1 address per family");
  EXPECT_TRUE(ResultJson(result, Version::k0_3_0).has_value());
}

TEST(Result, NoVersionHasAResultWithoutAnAddress) {
  for (const Version version : kVersions) {
    EXPECT_EQ(ResultJson({}, version).error().code, ErrorCode::kInvalid) << ToString(version);
  }
}

}  // namespace
}  // namespace berth::cni
