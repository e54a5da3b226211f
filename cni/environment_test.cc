// SPDX-License-Identifier: Apache-2.0
// ParseEnvironment: the variables of each verb, the order of the checks, the grammar of IDs and interface names.
#include "cni/environment.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

using Variables = std::map<std::string, std::string>;

Expected<Environment> Parse(const Variables& variables) {
  return ParseEnvironment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables Complete(const char* verb) {
  return {{"CNI_COMMAND", verb},
          {"CNI_CONTAINERID", "c1"},
          {"CNI_NETNS", "/some/where"},
          {"CNI_IFNAME", "eth0"},
          {"CNI_PATH", "/opt/cni/bin"}};
}

Variables Without(Variables variables, const std::vector<const char*>& names) {
  for (const char* name : names) variables.erase(name);
  return variables;
}

Variables With(Variables variables, const char* name, std::string value) {
  variables[name] = std::move(value);
  return variables;
}

struct RefusedEnvironmentCase {
  const char* name;
  Variables variables;
  const char* message;
  const char* details = "";
};
class RefusedEnvironment : public testing::TestWithParam<RefusedEnvironmentCase> {};

TEST_P(RefusedEnvironment, SaysWhatIsWrong) {
  const auto got = Parse(GetParam().variables);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, ErrorCode::kEnvironment);
  EXPECT_EQ(got.error().message, GetParam().message);
  EXPECT_THAT(got.error().details, testing::HasSubstr(GetParam().details));
}

const std::vector<RefusedEnvironmentCase>& RefusedEnvironmentCases() {
  static const std::vector<RefusedEnvironmentCase> kCases = {
      {"UnknownVerb", Complete("NOPE"), "unknown CNI_COMMAND: \"NOPE\""},
      {"LowerCaseVerb", Complete("add"), "unknown CNI_COMMAND: \"add\""},
      {"NoContainerId",
       Without(Complete("ADD"), {"CNI_CONTAINERID"}),
       "required env variables [CNI_CONTAINERID] missing"},
      {"EmptyContainerId",
       With(Complete("ADD"), "CNI_CONTAINERID", ""),
       "required env variables [CNI_CONTAINERID] missing"},
      {"AddNeedsNetns", Without(Complete("ADD"), {"CNI_NETNS"}), "required env variables [CNI_NETNS] missing"},
      {"CheckNeedsNetns", Without(Complete("CHECK"), {"CNI_NETNS"}), "required env variables [CNI_NETNS] missing"},
      {"DelNeedsIfname", Without(Complete("DEL"), {"CNI_IFNAME"}), "required env variables [CNI_IFNAME] missing"},
      {"DelNeedsPath", Without(Complete("DEL"), {"CNI_PATH"}), "required env variables [CNI_PATH] missing"},
      {"GcNeedsPath", {{"CNI_COMMAND", "GC"}}, "required env variables [CNI_PATH] missing"},
      {"StatusNeedsPath", {{"CNI_COMMAND", "STATUS"}}, "required env variables [CNI_PATH] missing"},
      {"AllMissingInOneMessageInOrder",
       Without(Complete("ADD"), {"CNI_PATH", "CNI_NETNS", "CNI_IFNAME"}),
       "required env variables [CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"},
      {"BadIdWinsOverMissingIfname",
       With(Without(Complete("ADD"), {"CNI_IFNAME"}), "CNI_CONTAINERID", "a%b"),
       "invalid characters in CNI_CONTAINERID",
       "a%b"},
      {"BadIfnameWinsOverMissingId",
       With(Without(Complete("ADD"), {"CNI_CONTAINERID"}), "CNI_IFNAME", "a/b"),
       "CNI_IFNAME: interface name contains / or : or white space",
       "a/b"},
      {"IfnameTooLong",
       With(Complete("DEL"), "CNI_IFNAME", "1234567890123456"),
       "CNI_IFNAME: interface name is too long, at most 15 bytes"},
  };
  return kCases;
}
INSTANTIATE_TEST_SUITE_P(Table, RefusedEnvironment, testing::ValuesIn(RefusedEnvironmentCases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Environment, NoCommandMeansThatAPersonStartedTheProgram) {
  EXPECT_EQ(Parse({})->verb, Verb::kAbout);
  EXPECT_EQ(Parse({{"CNI_COMMAND", ""}})->verb, Verb::kAbout);
}

TEST(Environment, AddCarriesEveryVariable) {
  auto variables = With(Complete("ADD"), "CNI_ARGS", "K=V");
  variables["CNI_NETNS_OVERRIDE"] = "TRUE";
  const Environment want{.verb = Verb::kAdd,
                         .container_id = "c1",
                         .ifname = "eth0",
                         .netns = "/some/where",
                         .args = "K=V",
                         .netns_override = true};
  EXPECT_EQ(Parse(variables).value(), want);
}

TEST(Environment, NetnsOverrideTakesOneAndTrueOnly) {
  for (const char* on : {"1", "true", "TRUE", "tRuE"}) {
    EXPECT_TRUE(Parse(With(Complete("ADD"), "CNI_NETNS_OVERRIDE", on))->netns_override) << on;
  }
  for (const char* off : {"", "0", "yes", "false", "2"}) {
    EXPECT_FALSE(Parse(With(Complete("ADD"), "CNI_NETNS_OVERRIDE", off))->netns_override) << off;
  }
}

TEST(Environment, DelDoesWithoutNetns) { EXPECT_TRUE(Parse(Without(Complete("DEL"), {"CNI_NETNS"})).has_value()); }

// Runtimes export every name with an empty value; libcni's probe for versions sets dummy values.
TEST(Environment, VerbsIgnoreVariablesTheyDoNotNeed) {
  for (const char* verb : {"GC", "STATUS", "VERSION"}) {
    auto variables = With(Complete(verb), "CNI_CONTAINERID", "a%b");
    variables["CNI_IFNAME"] = "a/b";
    EXPECT_EQ(Parse(variables)->container_id, "") << verb;
  }
}

TEST(Environment, VersionNeedsNothing) { EXPECT_EQ(Parse({{"CNI_COMMAND", "VERSION"}})->verb, Verb::kVersion); }

TEST(Environment, IdentifiersBeginWithALetterOrDigit) {
  for (const std::string& good : {std::string("A0_.-"), std::string("a"), std::string("7"), std::string(300, 'x')}) {
    EXPECT_TRUE(IsIdentifier(good)) << good;
  }
  for (const char* bad : {"", "a%b", "a/b", "a b", "-a", "_a", ".a", "\xC3\xA9", "a\n", "te%%st"}) {
    EXPECT_FALSE(IsIdentifier(bad)) << bad;
  }
}

TEST(Environment, InterfaceNamesFollowTheKernelAndUnicode) {
  for (const char* good : {"a",
                           "123456789012345",
                           "\xD0\xB0\xD0\xB1\xD0\xB2",
                           "%s",
                           "-",
                           "@",
                           "...",
                           "\x01",
                           "\x85",
                           "\xA0",
                           "\xE2\x80",
                           "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(InterfaceNameFault(good), "") << good;
  }
  for (const char* bad : {"",
                          "1234567890123456",
                          ".",
                          "..",
                          "a/b",
                          "a:b",
                          "a b",
                          "a\tb",
                          "a\n",
                          "\xC2\xA0",
                          "a\xC2\x85",
                          "\xE1\x9A\x80",
                          "\xE2\x80\x83",
                          "\xE3\x80\x80"}) {
    EXPECT_NE(InterfaceNameFault(bad), "") << bad;
  }
}

}  // namespace
}  // namespace berth::cni
