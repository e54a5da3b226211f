// SPDX-License-Identifier: Apache-2.0
// ParseArgs: what real callers send, and what is refused.
#include "cni/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

struct AcceptedArgsCase {
  const char* name;
  const char* text;
  Args want;
};
class AcceptedArgs : public testing::TestWithParam<AcceptedArgsCase> {};

TEST_P(AcceptedArgs, AreRead) {
  const auto got = ParseArgs(GetParam().text);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(*got, GetParam().want);
}

const std::vector<AcceptedArgsCase>& AcceptedArgsCases() {
  static const std::vector<AcceptedArgsCase> kCases = {
      {"Nothing", "", {}},
      {"Containerd",
       "K8S_POD_INFRA_CONTAINER_ID=abc;K8S_POD_UID=u-1;IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod",
       {.pod_namespace = "ns", .pod_name = "pod", .pod_uid = "u-1", .sandbox_id = "abc"}},
      {"MultusRepeatsAndSendsEmptyOnes",
       "IgnoreUnknown=true;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_NAME=c;FOO=;"
       "IgnoreUnknown=1",
       {.pod_namespace = "a", .pod_name = "c"}},
      {"PodmanSendsAName",
       "IgnoreUnknown=1;K8S_POD_NAME=web;IP=10.1.2.3;MAC=aa:bb:cc:dd:ee:ff",
       {.pod_name = "web", .ip = "10.1.2.3"}},
      {"AddressList", "IP=10.1.2.3/24,2001:db8::3", {.ip = "10.1.2.3/24,2001:db8::3"}},
      {"EmptyAddress", "IP=", {}},
      {"IgnoreUnknownInAnyCase", "FOO=BAR;IgnoreUnknown=TRUE", {}},
      {"IgnoreUnknownMayComeLast", "FOO=BAR;IgnoreUnknown=1", {}},
      {"KeysAreCaseSensitive", "ip=10.1.2.3;IgnoreUnknown=1", {}},
  };
  return kCases;
}
INSTANTIATE_TEST_SUITE_P(Table, AcceptedArgs, testing::ValuesIn(AcceptedArgsCases()),
                         [](const auto& c) { return std::string(c.param.name); });

struct RefusedArgsCase {
  const char* name;
  const char* text;
  const char* message;
};
class RefusedArgs : public testing::TestWithParam<RefusedArgsCase> {};

TEST_P(RefusedArgs, SaysWhichPair) {
  const auto got = ParseArgs(GetParam().text);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, ErrorCode::kEnvironment);
  EXPECT_EQ(got.error().message, std::string("CNI_ARGS: ") + GetParam().message);
}

constexpr RefusedArgsCase kRefusedArgsCases[] = {
    {"NoEquals", "FOO", "invalid pair \"FOO\""},
    {"TwoEquals", "A=b=c", "invalid pair \"A=b=c\""},
    {"TrailingSemicolon", "IP=;", "invalid pair \"\""},
    {"LoneSemicolon", ";", "invalid pair \"\""},
    {"MalformedEvenIfUnknownIsIgnored", "IgnoreUnknown=1;FOO", "invalid pair \"FOO\""},
    {"UnknownKey", "FOO=BAR", "unknown args [\"FOO=BAR\"]"},
    {"UnknownKeysTogether", "FOO=BAR;IP=;GATEWAY=10.0.0.1", "unknown args [\"FOO=BAR\" \"GATEWAY=10.0.0.1\"]"},
    {"LastIgnoreUnknownWins", "IgnoreUnknown=1;FOO=BAR;IgnoreUnknown=0", "unknown args [\"FOO=BAR\"]"},
    {"IgnoreUnknownYes", "IgnoreUnknown=yes", "error parsing value of pair \"IgnoreUnknown=yes\""},
    {"IgnoreUnknownEmpty", "IgnoreUnknown=", "error parsing value of pair \"IgnoreUnknown=\""},
};
INSTANTIATE_TEST_SUITE_P(Table, RefusedArgs, testing::ValuesIn(kRefusedArgsCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(RefusedArgs, AHugeListOfUnknownPairsIsCut) {
  std::string text = "A=";
  for (int i = 0; i < 1000; ++i) text += ";A=" + std::string(100, 'x');
  EXPECT_LT(ParseArgs(text).error().message.size(), 500U);
}

}  // namespace
}  // namespace berth::cni
