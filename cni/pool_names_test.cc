// SPDX-License-Identifier: Apache-2.0
// ChosenPools and PoolNames: which pools an ADD uses, and which names are refused.
#include "cni/pool_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr char kAnnotation[] = "ipam.berth.dev/pools";

std::string NamesUpTo(int count) {
  std::string names;
  for (int i = 0; i < count; ++i) names += (i == 0 ? "x" : ",x") + std::to_string(i);
  return names;
}

NetworkConfig ConfigWith(std::map<std::string, std::string> annotations) {
  NetworkConfig config;
  config.ipam.pools = {"web"};
  for (auto& [name, value] : annotations) config.annotations[name] = value;
  return config;
}

struct ChoiceCase {
  const char* name;
  std::map<std::string, std::string> annotations;
  const char* interface;
  const char* want;
};

class ChosenPoolsTest : public testing::TestWithParam<ChoiceCase> {};

TEST_P(ChosenPoolsTest, ComeFromTheFirstSourceThatIsThere) {
  const auto pools = ChosenPools(ConfigWith(GetParam().annotations), GetParam().interface);
  ASSERT_TRUE(pools.has_value()) << pools.error().message;
  std::string joined;
  for (const std::string& pool : *pools) joined += pool + ";";
  EXPECT_EQ(joined, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ChosenPoolsTest,
    testing::Values(
        ChoiceCase{"Configuration", {}, "eth0", "web;"}, ChoiceCase{"Annotation", {{kAnnotation, "a"}}, "eth0", "a;"},
        ChoiceCase{"AnnotationOfTheInterface", {{kAnnotation, "a"}, {"ipam.berth.dev/pools.eth0", "b"}}, "eth0", "b;"},
        ChoiceCase{"AnnotationOfThePodInterfaceOnly", {{kAnnotation, "a"}}, "net1", "web;"},
        ChoiceCase{"AnnotationOfAnotherInterface", {{"ipam.berth.dev/pools.net1", "b"}}, "net1", "b;"},
        ChoiceCase{"Several", {{kAnnotation, " a , b.c,,d-1 "}}, "eth0", "a;b.c;d-1;"},
        ChoiceCase{"Duplicates", {{kAnnotation, "a,b,a"}}, "eth0", "a;b;"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ChosenPools, AreAtMostSixtyFour) {
  const auto pools = ChosenPools(ConfigWith({{kAnnotation, NamesUpTo(64)}}), "eth0");
  ASSERT_TRUE(pools.has_value()) << pools.error().message;
  EXPECT_THAT(*pools, SizeIs(64));
}

struct RefusedPoolNamesCase {
  const char* name;
  std::string value;
  const char* says;
};

class RefusedAnnotation : public testing::TestWithParam<RefusedPoolNamesCase> {};

TEST_P(RefusedAnnotation, IsNamedInTheError) {
  const auto pools = ChosenPools(ConfigWith({{kAnnotation, GetParam().value}}), "eth0");
  ASSERT_FALSE(pools.has_value());
  EXPECT_EQ(CniCode(pools.error().code), 7U);
  EXPECT_THAT(pools.error().message, HasSubstr("the pod's annotation \"ipam.berth.dev/pools\""));
  EXPECT_THAT(pools.error().message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedAnnotation,
                         testing::Values(RefusedPoolNamesCase{"TooMany", NamesUpTo(65), "more than 64"},
                                         RefusedPoolNamesCase{"FiveThousand", NamesUpTo(5000), "more than 64"},
                                         RefusedPoolNamesCase{"Empty", "", "names no pool"},
                                         RefusedPoolNamesCase{"CommasOnly", " , ,", "names no pool"},
                                         RefusedPoolNamesCase{"UpperCase", "a,Web", "\"Web\""},
                                         RefusedPoolNamesCase{"Slash", "a/status", "\"a/status\""},
                                         RefusedPoolNamesCase{"Query", "a?x=1", "\"a?x=1\""},
                                         RefusedPoolNamesCase{"Space", "a b", "\"a b\""},
                                         RefusedPoolNamesCase{"Dots", "..", "\"..\""},
                                         RefusedPoolNamesCase{"TooLong", std::string(64, 'a'), "cannot be the name"}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ChosenPools, SayWhatToDoIfNoneIsNamed) {
  const auto pools = ChosenPools(NetworkConfig{}, "eth0");
  ASSERT_FALSE(pools.has_value());
  EXPECT_THAT(pools.error().details, HasSubstr("ipam.pools"));
}

}  // namespace
}  // namespace berth::cni
