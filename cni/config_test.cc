// SPDX-License-Identifier: Apache-2.0
// ParseConfig: what each verb reads and refuses, and the order of the checks.
#include "cni/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

constexpr Verb kVerbsWithConfig[] = {Verb::kAdd, Verb::kDel, Verb::kCheck, Verb::kGc, Verb::kStatus};

// A configuration that every verb accepts, followed by the members `more`: the last of duplicate keys counts.
std::string Good(std::string_view more = "") {
  std::string text = R"({"cniVersion":"1.1.0","name":"n1","type":"bridge","prevResult":{},)"
                     R"("ipam":{"type":"berth","pools":["p1"]})";
  if (!more.empty()) text += "," + std::string(more);
  return text + "}";
}

struct RefusedConfigCase {
  const char* name;
  Verb verb;
  std::string text;
  ErrorCode code;
  const char* message;
};
class RefusedConfig : public testing::TestWithParam<RefusedConfigCase> {};

TEST_P(RefusedConfig, SaysWhatIsWrong) {
  const auto got = ParseConfig(GetParam().text, GetParam().verb);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(ToString(got.error().code), ToString(GetParam().code)) << got.error().message;
  EXPECT_THAT(got.error().message + " / " + got.error().details, testing::HasSubstr(GetParam().message));
}

std::vector<RefusedConfigCase> SyntaxCases() {
  return {
      {"Empty", Verb::kAdd, "", ErrorCode::kDecode, "not valid JSON at byte"},
      {"Blanks", Verb::kAdd, " \n\t ", ErrorCode::kDecode, "not valid JSON"},
      {"CutShort", Verb::kAdd, "{", ErrorCode::kDecode, "not valid JSON"},
      {"List", Verb::kAdd, "[]", ErrorCode::kDecode, "is a list, it must be an object"},
      {"String", Verb::kAdd, "\"x\"", ErrorCode::kDecode, "is a string, it must be an object"},
      {"Number", Verb::kAdd, "123", ErrorCode::kDecode, "is a number, it must be an object"},
      {"Boolean", Verb::kDel, "true", ErrorCode::kDecode, "is a boolean, it must be an object"},
      {"TrailingText", Verb::kAdd, Good() + " x", ErrorCode::kDecode, "not valid JSON"},
      {"TrailingObject", Verb::kAdd, Good() + "{}", ErrorCode::kDecode, "not valid JSON"},
      {"TrailingNulByte", Verb::kAdd, Good() + std::string(1, '\0') + "x", ErrorCode::kDecode, "NUL byte"},
      {"ByteOrderMark", Verb::kAdd, "\xEF\xBB\xBF" + Good(), ErrorCode::kDecode, "byte order mark"},
      {"NotANumber", Verb::kAdd, Good(R"("x":NaN)"), ErrorCode::kDecode, "not valid JSON"},
      {"Comment", Verb::kAdd, Good() + "/**/", ErrorCode::kDecode, "not valid JSON"},
      {"InvalidUtf8", Verb::kAdd, Good("\"x\":\"\xFF\""), ErrorCode::kDecode, "not valid JSON"},
      {"TooDeep", Verb::kAdd, Good("\"x\":" + std::string(100000, '[')), ErrorCode::kDecode, "nested deeper than 256"},
      {"TooDeepInWhatIsRead",
       Verb::kAdd,
       Good("\"args\":" + std::string(300, '[') + std::string(300, ']')),
       ErrorCode::kDecode,
       "nested deeper than 256"},
      {"TooManyValues",
       Verb::kGc,
       [] {
         std::string list = "0";
         for (int i = 0; i < 1'000'001; ++i) list += ",0";
         return Good(R"("cni.dev/valid-attachments":[)" + list + "]");
       }(),
       ErrorCode::kDecode,
       "more than 1000000 values"},
  };
}
INSTANTIATE_TEST_SUITE_P(Syntax, RefusedConfig, testing::ValuesIn(SyntaxCases()),
                         [](const auto& c) { return std::string(c.param.name); });

std::vector<RefusedConfigCase> NameCases() {
  return {
      {"Null", Verb::kAdd, "null", ErrorCode::kInvalid, "missing network name"},
      {"EmptyObject", Verb::kDel, "{}", ErrorCode::kInvalid, "missing network name"},
      {"NameIsANumber", Verb::kAdd, Good(R"("name":5)"), ErrorCode::kDecode, "name is a number, it must be a string"},
      {"NameIsEmpty", Verb::kAdd, Good(R"("name":"")"), ErrorCode::kInvalid, "missing network name"},
      {"NameWithPercent",
       Verb::kAdd,
       Good(R"("name":"a%b")"),
       ErrorCode::kInvalid,
       "invalid characters found in network name / \"a%b\""},
      {"NameBeginsWithDash", Verb::kGc, Good(R"("name":"-x")"), ErrorCode::kInvalid, "invalid characters"},
      {"NameFormatString", Verb::kStatus, Good(R"("name":"te%%st")"), ErrorCode::kInvalid, "invalid characters"},
      {"NameBeforeVersion", Verb::kAdd, R"({"cniVersion":"9.8.7"})", ErrorCode::kInvalid, "missing network name"},
  };
}
INSTANTIATE_TEST_SUITE_P(Name, RefusedConfig, testing::ValuesIn(NameCases()),
                         [](const auto& c) { return std::string(c.param.name); });

std::vector<RefusedConfigCase> VersionCases() {
  const auto version = [](const char* text) { return Good(std::string(R"("cniVersion":)") + text); };
  constexpr auto kOld = ErrorCode::kIncompatibleVersion;
  return {
      {"Number", Verb::kAdd, version("1.1"), ErrorCode::kDecode, "cniVersion is a number"},
      {"AddUnknown", Verb::kAdd, version(R"("2.0.0")"), kOld, "config is \"2.0.0\", plugin supports 0.1.0, 0.2.0"},
      {"DelUnknown", Verb::kDel, version(R"("9.8.7")"), kOld, "incompatible CNI versions"},
      {"AddTwoNumbers", Verb::kAdd, version(R"("0.3")"), kOld, "config is \"0.3\""},
      {"AddWord", Verb::kAdd, version(R"("abc")"), kOld, "config is \"abc\""},
      {"DelWord", Verb::kDel, version(R"("abc")"), kOld, "config is \"abc\""},
      {"CheckWord", Verb::kCheck, version(R"("abc")"), ErrorCode::kDecode, "cniVersion \"abc\" is not a version"},
      {"GcWord", Verb::kGc, version(R"("abc")"), ErrorCode::kDecode, "is not a version"},
      {"StatusWord", Verb::kStatus, version(R"("1.1.0.0")"), ErrorCode::kDecode, "is not a version"},
      {"StatusNegative", Verb::kStatus, version(R"("-1.1")"), ErrorCode::kDecode, "is not a version"},
      {"CheckTooOld", Verb::kCheck, version(R"("0.3.1")"), kOld, "config version does not allow CHECK"},
      {"CheckWithoutVersion", Verb::kCheck, version(R"("")"), kOld, "config is \"0.1.0\", CHECK exists from 0.4.0"},
      {"GcTooOld", Verb::kGc, version(R"("1.0.0")"), kOld, "config version does not allow GC"},
      {"StatusTooOld", Verb::kStatus, version(R"("1.0.0")"), kOld, "STATUS exists from 1.1.0 on"},
      {"CheckTooNew", Verb::kCheck, version(R"("2.0.0")"), kOld, "plugin supports"},
      {"StatusTooNew", Verb::kStatus, version(R"("1.2")"), kOld, "plugin supports"},
  };
}
INSTANTIATE_TEST_SUITE_P(Version, RefusedConfig, testing::ValuesIn(VersionCases()),
                         [](const auto& c) { return std::string(c.param.name); });

std::vector<RefusedConfigCase> BodyCases() {
  return {
      {"IpamAbsent",
       Verb::kAdd,
       R"({"cniVersion":"1.1.0","name":"n1"})",
       ErrorCode::kInvalid,
       "IPAM config missing 'ipam' key"},
      {"IpamNull",
       Verb::kStatus,
       R"({"cniVersion":"1.1.0","name":"n1","ipam":null})",
       ErrorCode::kInvalid,
       "IPAM config missing"},
      {"IpamString",
       Verb::kAdd,
       Good(R"("ipam":"berth")"),
       ErrorCode::kDecode,
       "ipam is a string, it must be an object"},
      {"IpamStringOnDel", Verb::kDel, Good(R"("ipam":"berth")"), ErrorCode::kDecode, "ipam is a string"},
      {"RuntimeConfigList", Verb::kAdd, Good(R"("runtimeConfig":[])"), ErrorCode::kDecode, "runtimeConfig is a list"},
      {"RuntimeIpsString",
       Verb::kAdd,
       Good(R"("runtimeConfig":{"ips":"10.1.2.3"})"),
       ErrorCode::kDecode,
       "runtimeConfig.ips is a string, it must be a list"},
      {"ArgsIpNumber",
       Verb::kAdd,
       Good(R"("args":{"cni":{"ips":[1]}})"),
       ErrorCode::kDecode,
       "args.cni.ips[0] is a number"},
      {"AnnotationNumber",
       Verb::kAdd,
       Good(R"("runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"ipam.berth.dev/pools":1}})"),
       ErrorCode::kDecode,
       "ipam.berth.dev/pools must be a string"},
      {"PrevResultAbsent",
       Verb::kCheck,
       Good().replace(Good().find("prevResult"), 10, "nextResult"),
       ErrorCode::kInvalid,
       "Required prevResult missing"},
      {"PrevResultOfAnotherVersion",
       Verb::kCheck,
       Good(R"("prevResult":{"cniVersion":"1.0.0"})"),
       ErrorCode::kIncompatibleVersion,
       "prevResult is \"1.0.0\", config is \"1.1.0\""},
      {"PrevResultString", Verb::kCheck, Good(R"("prevResult":"x")"), ErrorCode::kDecode, "prevResult is a string"},
      {"PrevResultIpsObject",
       Verb::kCheck,
       Good(R"("prevResult":{"ips":{}})"),
       ErrorCode::kDecode,
       "prevResult.ips is an object"},
      {"AttachmentsObject",
       Verb::kGc,
       Good(R"("cni.dev/valid-attachments":{})"),
       ErrorCode::kDecode,
       "cni.dev/valid-attachments is an object"},
      {"AttachmentString",
       Verb::kGc,
       Good(R"("cni.dev/valid-attachments":["c1"])"),
       ErrorCode::kDecode,
       "cni.dev/valid-attachments[0] is a string"},
      {"AttachmentWithoutIfname",
       Verb::kGc,
       Good(R"("cni.dev/valid-attachments":[{"containerID":"c1"}])"),
       ErrorCode::kInvalid,
       "cni.dev/valid-attachments[0].ifname is missing"},
      {"AttachmentWithoutId",
       Verb::kGc,
       Good(R"("cni.dev/attachments":[{"ifname":"eth0"}])"),
       ErrorCode::kInvalid,
       "cni.dev/attachments[0].containerID is missing"},
      {"AttachmentIdNumber",
       Verb::kGc,
       Good(R"("cni.dev/valid-attachments":[{"containerID":1,"ifname":"eth0"}])"),
       ErrorCode::kDecode,
       "cni.dev/valid-attachments[0].containerID is a number"},
  };
}
INSTANTIATE_TEST_SUITE_P(Body, RefusedConfig, testing::ValuesIn(BodyCases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Config, EveryVerbAcceptsAGoodConfiguration) {
  for (const Verb verb : kVerbsWithConfig) {
    const auto got = ParseConfig(Good(), verb);
    ASSERT_TRUE(got.has_value()) << ToString(verb) << ": " << got.error().message;
    EXPECT_EQ(got->version, Version::k1_1_0);
    EXPECT_EQ(got->name, "n1");
  }
}

TEST(Config, AbsentEmptyAndNullVersionMean010) {
  for (const char* version : {"", R"("cniVersion":"",)", R"("cniVersion":null,)"}) {
    const auto got = ParseConfig("{" + std::string(version) + R"("name":"n1","ipam":{"type":"berth"}})", Verb::kAdd);
    EXPECT_EQ(got.value().version, Version::k0_1_0) << version;
  }
}

TEST(Config, EveryVersionIsTakenByAddAndDel) {
  for (const Version version : kVersions) {
    const std::string text = Good(R"("cniVersion":")" + std::string(ToString(version)) + "\"");
    EXPECT_EQ(ParseConfig(text, Verb::kAdd).value().version, version);
    EXPECT_EQ(ParseConfig(text, Verb::kDel).value().version, version);
  }
}

TEST(Config, UnknownKeysAreIgnoredWhateverTheyHold) {
  const std::string text = Good(
      R"("cni.dev/foo":[1],"capabilities":{"ips":"x"},"dns":5,"ipMasq":"yes","deviceID":null,"plugins":[{}],"args":null,)"
      R"("runtimeConfig":null,"disableCheck":"true")");
  for (const Verb verb : kVerbsWithConfig)
    EXPECT_EQ(ParseConfig(text, verb).value(), ParseConfig(Good(), verb).value());
}

TEST(Config, ArgsOfOthersAreIgnored) {
  EXPECT_EQ(ParseConfig(Good(R"("args":{"foo":[{}],"cni":{"labels":7}})"), Verb::kAdd).value(),
            ParseConfig(Good(), Verb::kAdd).value());
}

TEST(Config, TwentyMegabytesOfPaddingAreIgnored) {
  const std::string text = Good("\"padding\":\"" + std::string(20'000'000, 'x') + "\"");
  EXPECT_EQ(ParseConfig(text, Verb::kAdd).value(), ParseConfig(Good(), Verb::kAdd).value());
}

TEST(Config, OneByteOverTheLimitIsRefused) {
  const auto got = ParseConfig(std::string(kConfigBytesMax + 1, ' '), Verb::kAdd);
  EXPECT_EQ(got.error().code, ErrorCode::kDecode);
  EXPECT_THAT(got.error().message, testing::HasSubstr("larger than 64 MiB"));
}

TEST(Config, KeysAreReadInAnyLetterCaseAndTheLastWins) {
  const std::string text =
      R"({"CNIVERSION":"1.1.0","name":"first","Name":"last","IPAM":{"Type":"berth","POOLS":["a"],"pools":["b"]}})";
  const auto got = ParseConfig(text, Verb::kAdd);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(got->name, "last");
  EXPECT_THAT(got->ipam.pools, testing::ElementsAre("b"));
}

TEST(Config, NullDoesNotUndoAnEarlierValue) {
  EXPECT_EQ(ParseConfig(Good(R"("name":null,"ipam":null,"cniVersion":null)"), Verb::kAdd).value(),
            ParseConfig(Good(), Verb::kAdd).value());
}

TEST(Config, DelDoesWithoutIpamAndUsesTheDefaults) {
  for (const Verb verb : {Verb::kDel, Verb::kGc}) {
    const auto got = ParseConfig(R"({"cniVersion":"1.1.0","name":"n1"})", verb);
    EXPECT_EQ(got.value().ipam, IpamConfig{}) << ToString(verb);
  }
}

TEST(Config, DelDoesNotLookAtWhatOnlyAddUses) {
  const std::string text = Good(
      R"("ipam":{"type":5,"pools":"x","routes":{},"dns":[],"resolvConf":1,"nodeName":"n9"},"runtimeConfig":[],"args":5,)"
      R"("prevResult":[])");
  for (const Verb verb : {Verb::kDel, Verb::kGc}) {
    const auto got = ParseConfig(text, verb);
    ASSERT_TRUE(got.has_value()) << got.error().message;
    EXPECT_EQ(got->ipam.node_name, "n9");
  }
}

TEST(Config, AddIgnoresPrevResult) {
  for (const char* previous : {"{}", "null", "5", R"({"cniVersion":"0.2.0","ip4":{}})"}) {
    EXPECT_TRUE(ParseConfig(Good(R"("prevResult":)" + std::string(previous)), Verb::kAdd).has_value()) << previous;
  }
}

TEST(Config, CheckReadsAddressesAndGatewaysOfPrevResult) {
  const auto got = ParseConfig(
      Good(R"("prevResult":{"interfaces":[{"name":"eth0","mac":"00:11:22:33:44:55"}],"routes":[{"dst":"junk"}],)"
           R"("ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1","interface":0},{"address":"2001:db8::3/64"},)"
           R"({"address":"of another plugin"},{}]})"),
      Verb::kCheck);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  const std::vector<PreviousAddress> want = {
      {ipam::Address::Parse("10.1.2.3").value(), ipam::Address::Parse("10.1.2.1").value()},
      {ipam::Address::Parse("2001:db8::3").value(), std::nullopt}};
  EXPECT_EQ(got->previous, want);
}

TEST(Config, CheckAcceptsPrevResultOfItsOwnVersion) {
  EXPECT_TRUE(ParseConfig(Good(R"("prevResult":{"cniVersion":"1.1.0"})"), Verb::kCheck).has_value());
}

TEST(Config, AnnotationsOfOthersAreDropped) {
  const auto got = ParseConfig(Good(R"("runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"a":5,)"
                                    R"("ipam.berth.dev/pools":"x,y","IPAM.berth.dev/other":"z"}})"),
                               Verb::kAdd);
  EXPECT_THAT(got.value().annotations, testing::ElementsAre(testing::Pair("ipam.berth.dev/pools", "x,y")));
}

struct AttachmentsCase {
  const char* name;
  const char* text;
  std::optional<std::vector<ValidAttachment>> want;
};
class ConfigAttachments : public testing::TestWithParam<AttachmentsCase> {};

TEST_P(ConfigAttachments, AreReadFromEitherKey) {
  EXPECT_EQ(ParseConfig(Good(GetParam().text), Verb::kGc).value().valid_attachments, GetParam().want);
}

const std::vector<AttachmentsCase>& AttachmentsCases() {
  using List = std::vector<ValidAttachment>;
  static const std::vector<AttachmentsCase> kCases = {
      {"KeyAbsent", R"("x":1)", std::nullopt},
      {"Empty", R"("cni.dev/valid-attachments":[])", List{}},
      {"Null", R"("cni.dev/valid-attachments":null)", List{}},
      {"OldKeyOnly", R"("cni.dev/attachments":[{"containerID":"c1","ifname":"eth0"}])", List{{"c1", "eth0"}}},
      {"NewKeyCountsWhereBothAre",
       R"("cni.dev/attachments":[{"containerID":"c1","ifname":"eth0"}],"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth1"}])",
       List{{"c2", "eth1"}}},
      {"UnknownFieldsAndDuplicates",
       R"("cni.dev/valid-attachments":[{"containerid":"c1","IfName":"eth0","x":[]},{"containerID":"c1","ifname":"eth0"}])",
       List{{"c1", "eth0"}, {"c1", "eth0"}}},
  };
  return kCases;
}
INSTANTIATE_TEST_SUITE_P(Table, ConfigAttachments, testing::ValuesIn(AttachmentsCases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(VersionForErrors, IsThatOfTheConfigurationIfItCanBeRead) {
  EXPECT_EQ(VersionForErrors(R"({"cniVersion":"0.4.0","name":5})"), Version::k0_4_0);
  EXPECT_EQ(VersionForErrors("{}"), Version::k0_1_0);
  for (const char* unusable : {"", "{", "[]", R"({"cniVersion":"2.0.0"})", R"({"cniVersion":5})"}) {
    EXPECT_EQ(VersionForErrors(unusable), kNewestVersion) << unusable;
  }
}

}  // namespace
}  // namespace berth::cni
