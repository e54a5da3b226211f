// SPDX-License-Identifier: Apache-2.0
// The section `ipam`: each field's default, its limits, and the error if a value breaks them.
#include "cni/ipam_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

Expected<IpamConfig> Parse(const std::string& members) {
  const auto config =
      ParseConfig(R"({"cniVersion":"1.1.0","name":"n1","ipam":{"type":"berth",)" + members + "}}", Verb::kAdd);
  if (!config) return std::unexpected(config.error());
  return config->ipam;
}

TEST(IpamConfig, EveryFieldHasItsDefault) {
  EXPECT_EQ(Parse(R"("unknown":{})").value(), IpamConfig{});
  EXPECT_EQ(IpamConfig{}.timeout, std::chrono::seconds(25));
  EXPECT_EQ(IpamConfig{}.state_dir, "/var/lib/berth");
}

TEST(IpamConfig, EveryFieldIsRead) {
  const auto got = Parse(R"("pools":["b","a","b"],"kubeconfig":"/k","nodeName":"n1.example.org","timeoutSeconds":600,)"
                         R"("resolvConf":"/r","stateDir":"/s","agentSocket":"/a","logFile":"/l","logLevel":"debug",)"
                         R"("dns":{"nameservers":["10.0.0.10"],"domain":"d","search":["s"],"options":["o"]})");
  IpamConfig want;
  want.pools = {"b", "a"};
  want.kubeconfig = "/k";
  want.node_name = "n1.example.org";
  want.timeout = std::chrono::seconds(600);
  want.resolv_conf = "/r";
  want.state_dir = "/s";
  want.agent_socket = "/a";
  want.log_file = "/l";
  want.log_level = LogLevel::kDebug;
  want.dns = ipam::Dns{.nameservers = {"10.0.0.10"}, .domain = "d", .search = {"s"}, .options = {"o"}};
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(*got, want);
}

TEST(IpamConfig, NullAndEmptyTextMeanTheDefault) {
  EXPECT_EQ(
      Parse(
          R"("pools":null,"kubeconfig":"","nodeName":"","timeoutSeconds":null,"stateDir":"","logLevel":"","dns":null)")
          .value(),
      IpamConfig{});
}

TEST(IpamConfig, RoutesAreReadInOrderWithTheirAttributes) {
  const auto got =
      Parse(R"("routes":[{"dst":"0.0.0.0/0"},{"dst":"0.0.0.0/0","gw":"10.1.2.9"},)"
            R"({"dst":"2001:db8::/32","gw":"","mtu":1400,"advmss":1,"priority":0,"table":4294967295,"scope":255},)"
            R"({"dst":"10.0.0.0/8","gw":null,"unknown":1}])");
  ASSERT_TRUE(got.has_value()) << got.error().message;
  const ipam::Route first;
  ipam::Route second;
  second.gateway = ipam::Address::Parse("10.1.2.9").value();
  ipam::Route third;
  third.destination = ipam::Prefix::Parse("2001:db8::/32").value();
  third.mtu = 1400;
  third.advmss = 1;
  third.priority = 0;
  third.table = 4294967295;
  third.scope = 255;
  ipam::Route fourth;
  fourth.destination = ipam::Prefix::Parse("10.0.0.0/8").value();
  EXPECT_THAT(got->routes.value(), testing::ElementsAre(first, second, third, fourth));
}

// An empty list replaces the routes of the pools: the result has no routes.
TEST(IpamConfig, NoRoutesDifferFromRoutesNotGiven) {
  EXPECT_TRUE(Parse(R"("routes":[])")->routes.has_value());
  EXPECT_FALSE(Parse(R"("pools":[])")->routes.has_value());
}

struct RefusedIpamConfigCase {
  const char* name;
  const char* members;
  ErrorCode code;
  const char* message;
};
class RefusedIpamConfig : public testing::TestWithParam<RefusedIpamConfigCase> {};

TEST_P(RefusedIpamConfig, NamesTheField) {
  const auto got = Parse(GetParam().members);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(ToString(got.error().code), ToString(GetParam().code));
  EXPECT_THAT(got.error().message, testing::HasSubstr(GetParam().message));
}

constexpr RefusedIpamConfigCase kRefusedIpamConfigCases[] = {
    {"TypeNumber", R"("type":1)", ErrorCode::kDecode, "ipam.type is a number"},
    {"TypeEmpty", R"("type":"")", ErrorCode::kInvalid, "ipam.type is missing"},
    {"PoolsString", R"("pools":"p1")", ErrorCode::kDecode, "ipam.pools is a string, it must be a list of strings"},
    {"PoolNumber", R"("pools":["a",5])", ErrorCode::kDecode, "ipam.pools[1] is a number"},
    {"PoolEmpty", R"("pools":[""])", ErrorCode::kInvalid, "ipam.pools: \"\" cannot be the name"},
    {"PoolUpperCase", R"("pools":["P1"])", ErrorCode::kInvalid, "ipam.pools: \"P1\""},
    {"PoolWithSlash", R"("pools":["../secrets"])", ErrorCode::kInvalid, "\"../secrets\""},
    {"KubeconfigNumber", R"("kubeconfig":5)", ErrorCode::kDecode, "ipam.kubeconfig is a number"},
    {"KubeconfigRelative", R"("kubeconfig":"k")", ErrorCode::kInvalid, "ipam.kubeconfig \"k\" is not an absolute path"},
    {"PathWithNul", R"("stateDir":"/a\u0000b")", ErrorCode::kInvalid, "ipam.stateDir \"/a\\x00b\" is not"},
    {"NodeNameWithBlank", R"("nodeName":"n 1")", ErrorCode::kInvalid, "ipam.nodeName \"n 1\""},
    {"TimeoutString",
     R"("timeoutSeconds":"5")",
     ErrorCode::kDecode,
     "ipam.timeoutSeconds is a string, it must be a number"},
    {"TimeoutZero",
     R"("timeoutSeconds":0)",
     ErrorCode::kInvalid,
     "ipam.timeoutSeconds must be a whole number from 1 to 600"},
    {"TimeoutNegative", R"("timeoutSeconds":-1)", ErrorCode::kInvalid, "ipam.timeoutSeconds must be"},
    {"TimeoutTooLong", R"("timeoutSeconds":601)", ErrorCode::kInvalid, "ipam.timeoutSeconds must be"},
    {"TimeoutHuge", R"("timeoutSeconds":18446744073709551615)", ErrorCode::kInvalid, "ipam.timeoutSeconds must be"},
    {"TimeoutFraction", R"("timeoutSeconds":1.5)", ErrorCode::kInvalid, "ipam.timeoutSeconds must be"},
    {"LogLevelUnknown", R"("logLevel":"loud")", ErrorCode::kInvalid, "ipam.logLevel \"loud\""},
    {"RoutesObject", R"("routes":{})", ErrorCode::kDecode, "ipam.routes is an object"},
    {"RouteString", R"("routes":["0.0.0.0/0"])", ErrorCode::kDecode, "ipam.routes[0] is a string"},
    {"RouteWithoutDestination", R"("routes":[{}])", ErrorCode::kInvalid, "ipam.routes[0].dst"},
    {"RouteDestinationNotCidr", R"("routes":[{"dst":"10.0.0.0"}])", ErrorCode::kInvalid, "ipam.routes[0].dst"},
    {"RouteDestinationHostBits", R"("routes":[{"dst":"10.0.0.1/8"}])", ErrorCode::kInvalid, "10.0.0.1/8"},
    {"RouteGatewayBogus", R"("routes":[{"dst":"10.0.0.0/8","gw":"x"}])", ErrorCode::kInvalid, "ipam.routes[0].gw"},
    {"RouteGatewayOfOtherFamily",
     R"("routes":[{"dst":"10.0.0.0/8","gw":"2001:db8::1"}])",
     ErrorCode::kInvalid,
     "another family"},
    {"RouteMtuNegative", R"("routes":[{"dst":"10.0.0.0/8","mtu":-1}])", ErrorCode::kInvalid, "ipam.routes[0].mtu"},
    {"RouteScopeTooLarge",
     R"("routes":[{"dst":"10.0.0.0/8","scope":256}])",
     ErrorCode::kInvalid,
     "ipam.routes[0].scope"},
    {"DnsString", R"("dns":"10.0.0.10")", ErrorCode::kDecode, "ipam.dns is a string"},
    {"DnsServersString",
     R"("dns":{"nameservers":"10.0.0.10"})",
     ErrorCode::kDecode,
     "ipam.dns.nameservers is a string"},
    {"ResolvConfRelative", R"("resolvConf":"resolv.conf")", ErrorCode::kInvalid, "ipam.resolvConf"},
};
INSTANTIATE_TEST_SUITE_P(Table, RefusedIpamConfig, testing::ValuesIn(kRefusedIpamConfigCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(IpamConfig, MoreThan64PoolsAreRefused) {
  std::string pools = R"("pools":["p0")";
  for (int i = 1; i < 65; ++i) pools += ",\"p" + std::to_string(i) + "\"";
  EXPECT_EQ(Parse(pools + "]").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace berth::cni
