// SPDX-License-Identifier: Apache-2.0
// RequestedAddresses: which source counts, and which texts are valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni/config.h"

namespace berth::cni {
namespace {

std::vector<std::string> Texts(const std::vector<ipam::Address>& addresses) {
  std::vector<std::string> texts;
  for (const auto& address : addresses) texts.push_back(address.ToString());
  return texts;
}

Expected<std::vector<ipam::Address>> FromArgs(std::string ip) {
  Args args;
  args.ip = std::move(ip);
  return RequestedAddresses({}, args);
}

struct AcceptedRequestedCase {
  const char* name;
  const char* text;
  std::vector<std::string> want;
};
class RequestedAccepted : public testing::TestWithParam<AcceptedRequestedCase> {};

TEST_P(RequestedAccepted, OneOfEachFamily) { EXPECT_EQ(Texts(FromArgs(GetParam().text).value()), GetParam().want); }

const std::vector<AcceptedRequestedCase>& AcceptedRequestedCases() {
  static const std::vector<AcceptedRequestedCase> kCases = {
      {"None", "", {}},
      {"Plain", "10.1.2.3", {"10.1.2.3"}},
      {"LengthIsIgnored", "10.1.2.3/16", {"10.1.2.3"}},
      {"BothFamilies", "10.1.2.3,2001:db8::3", {"10.1.2.3", "2001:db8::3"}},
      {"BothFamiliesWithLengths", "2001:DB8::3/64,10.1.2.3/24", {"2001:db8::3", "10.1.2.3"}},
  };
  return kCases;
}
INSTANTIATE_TEST_SUITE_P(Table, RequestedAccepted, testing::ValuesIn(AcceptedRequestedCases()),
                         [](const auto& c) { return std::string(c.param.name); });

class RequestedRefused : public testing::TestWithParam<const char*> {};

TEST_P(RequestedRefused, InEverySource) {
  const auto in_args = FromArgs(GetParam());
  ASSERT_FALSE(in_args.has_value()) << "accepted " << GetParam();
  EXPECT_EQ(in_args.error().code, ErrorCode::kEnvironment);
  EXPECT_THAT(in_args.error().message, testing::StartsWith("CNI_ARGS IP: "));

  NetworkConfig config;
  config.args_ips = {GetParam()};
  EXPECT_EQ(RequestedAddresses(config, {}).error().code, ErrorCode::kInvalid);
  config.runtime_ips = {GetParam()};
  EXPECT_THAT(RequestedAddresses(config, {}).error().message, testing::StartsWith("runtimeConfig.ips: "));
}

INSTANTIATE_TEST_SUITE_P(Table, RequestedRefused,
                         testing::Values("bogus", " 10.1.2.9", "10.1.2.9 ", "10.1.2.3/", "10.1.2.3/33", "10.1.2.3/-1",
                                         "10.1.2.3/2x", "10.1.2.3/ 4", "2001:db8::3/129", "010.1.2.3",
                                         "::ffff:10.1.2.3", ",", "10.1.2.3,", "10.1.2.3, 2001:db8::3",
                                         "10.1.2.3,10.1.2.4", "10.1.2.3,10.1.2.3"));

TEST(Requested, RuntimeConfigBeforeArgsBeforeCniArgs) {
  NetworkConfig config;
  Args args;
  args.ip = "10.1.2.3";
  EXPECT_THAT(Texts(RequestedAddresses(config, args).value()), testing::ElementsAre("10.1.2.3"));
  config.args_ips = {"10.1.2.4/24", "2001:db8::4"};
  EXPECT_THAT(Texts(RequestedAddresses(config, args).value()), testing::ElementsAre("10.1.2.4", "2001:db8::4"));
  config.runtime_ips = {"10.1.2.5"};
  EXPECT_THAT(Texts(RequestedAddresses(config, args).value()), testing::ElementsAre("10.1.2.5"));
}

TEST(Requested, ASourceThatDoesNotCountMayHoldAnything) {
  NetworkConfig config;
  config.runtime_ips = {"10.1.2.5"};
  config.args_ips = {"junk"};
  Args args;
  args.ip = "junk";
  EXPECT_TRUE(RequestedAddresses(config, args).has_value());
}

TEST(Requested, TwoOfOneFamilyAreNamedInTheMessage) {
  EXPECT_THAT(FromArgs("10.1.2.3,10.1.2.4").error().message,
              testing::HasSubstr("requests two IPv4 addresses, 10.1.2.3 and 10.1.2.4"));
}

}  // namespace
}  // namespace berth::cni
