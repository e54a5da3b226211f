// SPDX-License-Identifier: Apache-2.0
// ForwardedCall: the agent gets the runtime's call, and of stdin only the members that the verb reads.
#include "cni/forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni/config.h"

namespace berth::cni {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kConfig =
    R"({"cniVersion":"1.1.0","name":"n1","type":"bridge","bridge":"secret-of-bridge","capabilities":{"ips":true},)"
    R"("ipam":{"type":"berth","pools":["p1","p2"],"timeoutSeconds":5,"unknown":{"deep":[1,-2,1.5,true,null,"\u0001é"]},)"
    R"("routes":[{"dst":"0.0.0.0/0","gw":"10.1.2.1","mtu":1400}],"dns":{"nameservers":["10.0.0.10"]}},)"
    R"("runtimeConfig":{"ips":["10.1.2.3/24"],"portMappings":[{"hostPort":1}],)"
    R"("io.kubernetes.cri.pod-annotations":{"ipam.berth.dev/pools":"p1","example.org/secret":"x"}},)"
    R"("args":{"cni":{"ips":["10.1.2.4"],"labels":[]},"other":{}},)"
    R"("prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],)"
    R"("ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1","interface":2}]},)"
    R"("cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0","more":"attachment-noise"}]})";

ForwardedCall Call(Verb verb, std::string_view config = kConfig) {
  return {.environment = {.verb = verb, .container_id = "c1", .ifname = "eth0", .netns = "/some/where", .args = "K=V"},
          .config = ParseConfigTree(config, verb).value(),
          .started_nanos = 123456789012345678};
}

Environment WithoutContainer(const Environment& environment) {
  Environment without;
  without.verb = environment.verb;
  return without;
}

class EveryVerb : public testing::TestWithParam<Verb> {};
INSTANTIATE_TEST_SUITE_P(ForwardedCall, EveryVerb,
                         testing::Values(Verb::kAdd, Verb::kDel, Verb::kCheck, Verb::kGc, Verb::kStatus),
                         [](const auto& c) { return std::string(ToString(c.param)); });

TEST_P(EveryVerb, GivesTheAgentTheSameConfiguration) {
  const auto body = MakeForwardedBody(Call(GetParam()));
  ASSERT_TRUE(body.has_value()) << body.error().message;
  const auto got = ParseForwardedCall(*body);
  ASSERT_TRUE(got.has_value()) << got.error().message << *body;
  EXPECT_EQ(ParseConfig(got->config, GetParam()).value(), ParseConfig(kConfig, GetParam()).value());
}

TEST_P(EveryVerb, GivesTheAgentTheVariablesThatItNeeds) {
  const bool has_container = GetParam() != Verb::kGc && GetParam() != Verb::kStatus;
  const auto got = ParseForwardedCall(MakeForwardedBody(Call(GetParam())).value());
  const Environment sent = Call(GetParam()).environment;
  EXPECT_EQ(got.value().environment, has_container ? sent : WithoutContainer(sent));
  EXPECT_EQ(got->started_nanos, 123456789012345678);
}

TEST_P(EveryVerb, LeavesOutWhatTheAgentDoesNotNeed) {
  const std::string body = MakeForwardedBody(Call(GetParam())).value();
  for (const char* noise : {"secret", "capabilities", "portMappings", "labels", "interfaces", "attachment-noise"}) {
    EXPECT_THAT(body, Not(HasSubstr(noise)));
  }
}

TEST_P(EveryVerb, IsSeenWithoutParsing) {
  const std::string body = MakeForwardedBody(Call(GetParam())).value();
  EXPECT_TRUE(BeginsWithVerb(body, GetParam()));
  EXPECT_FALSE(BeginsWithVerb(body, GetParam() == Verb::kDel ? Verb::kAdd : Verb::kDel));
}

TEST(ForwardedCall, OnlyCheckSendsThePreviousResult) {
  EXPECT_THAT(MakeForwardedBody(Call(Verb::kCheck)).value(), HasSubstr("prevResult"));
  EXPECT_THAT(MakeForwardedBody(Call(Verb::kAdd)).value(), Not(HasSubstr("prevResult")));
}

// `berth` sends such a DEL after a failed ADD.
TEST(ForwardedCall, DelMayBeMadeOfTheConfigurationOfAnAdd) {
  ForwardedCall del = Call(Verb::kAdd);
  del.environment.verb = Verb::kDel;
  EXPECT_EQ(MakeForwardedBody(del).value(), MakeForwardedBody(Call(Verb::kDel)).value());
}

TEST(ForwardedCall, UnknownFieldsOfIpamReachTheAgentUnchanged) {
  EXPECT_THAT(MakeForwardedBody(Call(Verb::kAdd)).value(),
              HasSubstr(R"("unknown":{"deep":[1,-2,1.5,true,null,"\u0001é"]})"));
}

// Go's rules for duplicate keys and letter case. A tree with unique names could not follow them.
struct DuplicateCase {
  const char* name;
  const char* members;
};
class DuplicateMembers : public testing::TestWithParam<DuplicateCase> {};

TEST_P(DuplicateMembers, MeanTheSameToTheAgent) {
  const std::string config = R"({"cniVersion":"1.1.0","name":"n1","ipam":{"type":"berth","pools":["p1"]},)" +
                             std::string(GetParam().members) + "}";
  const auto want = ParseConfig(config, Verb::kAdd);
  ASSERT_TRUE(want.has_value()) << want.error().message;
  const auto got = ParseForwardedCall(MakeForwardedBody(Call(Verb::kAdd, config)).value());
  EXPECT_EQ(ParseConfig(got.value().config, Verb::kAdd).value(), *want);
}

INSTANTIATE_TEST_SUITE_P(
    Table, DuplicateMembers,
    testing::Values(DuplicateCase{"LastOneWins", R"("name":"n2","name":"n3")"},
                    DuplicateCase{"LetterCaseDoesNotMatter", R"("NAME":"n2","Name":"n3","NAME":"n4")"},
                    DuplicateCase{"NullIsPassedOver", R"("name":"n2","name":null)"},
                    DuplicateCase{"NestedLetterCase",
                                  R"("RuntimeConfig":{"IPs":["10.1.2.9"]},"ARGS":{"CNI":{"Ips":[]}})"},
                    DuplicateCase{"WholeSection", R"("ipam":{"type":"berth","pools":["p2"]},"IPAM":{"type":"x"})"}),
    [](const auto& c) { return std::string(c.param.name); });

// A new version of `berth` may be on the node before the new agent.
TEST(ForwardedCall, MembersThatALaterVersionAddsAreIgnored) {
  const std::string body = MakeForwardedBody(Call(Verb::kAdd)).value();
  const auto plain = ParseForwardedCall(body);
  const auto later = ParseForwardedCall(R"({"attempt":{"count":[2]},)" + body.substr(1));
  ASSERT_TRUE(later.has_value()) << later.error().message;
  EXPECT_EQ(later->environment, plain.value().environment);
  EXPECT_EQ(later->started_nanos, plain->started_nanos);
  EXPECT_EQ(ParseConfig(later->config, Verb::kAdd).value(), ParseConfig(plain->config, Verb::kAdd).value());
}

TEST(ForwardedCall, VariablesThatAreNotUtf8ReachTheAgentUnchanged) {
  ForwardedCall call = Call(Verb::kAdd);
  call.environment.ifname = "e\xFF\x85\"\\";
  call.environment.args = "IgnoreUnknown=1;X=\xC3";
  call.environment.netns = "/some/\xE9";
  EXPECT_EQ(ParseForwardedCall(MakeForwardedBody(call).value()).value().environment, call.environment);
}

TEST(ForwardedCall, ResolvConfReplacesTheDnsOfTheConfiguration) {
  const ipam::Dns dns{.nameservers = {"10.0.0.53"}, .domain = "d", .search = {"a", "b"}, .options = {"ndots:5"}};
  const auto got = ParseForwardedCall(MakeForwardedBody(Call(Verb::kAdd), dns).value());
  EXPECT_EQ(ParseConfig(got.value().config, Verb::kAdd).value().ipam.dns, dns);
}

TEST(ForwardedCall, ResolvConfMayContainBytesThatAreNotUtf8) {
  ipam::Dns dns;
  dns.domain = "\xFF";
  const auto got = ParseForwardedCall(MakeForwardedBody(Call(Verb::kAdd), dns).value());
  EXPECT_EQ(ParseConfig(got.value().config, Verb::kAdd).value().ipam.dns->domain, "\xEF\xBF\xBD");
}

TEST(ForwardedCall, MembersOfOtherPluginsDoNotReachTheAgent) {
  const std::string padded = R"({"padding":")" + std::string(2'000'000, 'x') + R"(",)" + std::string(kConfig.substr(1));
  EXPECT_EQ(MakeForwardedBody(Call(Verb::kAdd, padded)).value(), MakeForwardedBody(Call(Verb::kAdd)).value());
}

// A DEL must not fail because of a field that it does not read, and a body is one level deeper than its configuration.
TEST(ForwardedCall, ADelCarriesNoTypeHoweverDeepItIs) {
  constexpr std::size_t kDepth = 254;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const std::string config = R"({"cniVersion":"1.1.0","name":"n1","ipam":{"timeoutSeconds":5,"type":)" + deep + "}}";
  const auto got = ParseForwardedCall(MakeForwardedBody(Call(Verb::kDel, config)).value());
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(ParseConfig(got->config, Verb::kDel).value().ipam.timeout, std::chrono::seconds(5));
}

TEST(ForwardedCall, ABodyThatTheAgentWouldRefuseIsAnError) {
  for (const auto& [verb, limit] : {std::pair(Verb::kAdd, "64 KiB"), std::pair(Verb::kGc, "4096 KiB")}) {
    ForwardedCall call = Call(verb);
    call.environment.args = std::string(LimitsOf(verb).bytes, 'x');
    const auto body = MakeForwardedBody(call);
    ASSERT_FALSE(body.has_value());
    EXPECT_EQ(body.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(body.error().message, HasSubstr(std::string("larger than ") + limit));
  }
}

// The agent has a small memory for all callers, and there a value of two bytes takes about a hundred bytes.
TEST(ForwardedCall, ABodyOfTooManyValuesIsRefused) {
  std::string values = "0";
  for (std::size_t i = 1; i < LimitsOf(Verb::kAdd).values; ++i) values += ",0";
  const std::string config =
      R"({"cniVersion":"1.1.0","name":"n1","ipam":{"type":"berth","pools":["p1"],"other":[)" + values + "]}}";
  const auto made = MakeForwardedBody(Call(Verb::kAdd, config));
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("more than 2000 values"));
  std::string body = MakeForwardedBody(Call(Verb::kAdd)).value();
  const std::string_view pools = R"("pools")";
  body.insert(body.find(pools), R"("other":[)" + values + "],");
  const auto got = ParseForwardedCall(body);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, ErrorCode::kDecode);
  EXPECT_THAT(got.error().message, HasSubstr("more than 2000 values"));
}

struct BadBodyCase {
  const char* name;
  std::string body;
  const char* message;
};
class BadBody : public testing::TestWithParam<BadBodyCase> {};

TEST_P(BadBody, IsRefused) {
  const auto got = ParseForwardedCall(GetParam().body);
  ASSERT_FALSE(got.has_value());
  EXPECT_THAT(got.error().message, HasSubstr(GetParam().message));
}

std::string Body(std::string_view members) {
  return R"({"containerID":"c1","ifname":"eth0","netns":"/n",)" + std::string(members) + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadBody,
    testing::Values(
        BadBodyCase{"Empty", "", "body: not valid JSON"},
        BadBodyCase{"List", "[]", "the body is a list, not an object"},
        BadBodyCase{"TooLong", std::string((64 << 10) + 1, ' '), "larger than 64 KiB"},
        BadBodyCase{"NoCommand", Body(R"("startedBootNanos":1,"config":{})"), "command must be ADD"},
        BadBodyCase{"Version", Body(R"("command":"VERSION","startedBootNanos":1,"config":{})"), "command must be ADD"},
        BadBodyCase{
            "UnknownCommand", Body(R"("command":"NOPE","startedBootNanos":1,"config":{})"), "unknown CNI_COMMAND"},
        BadBodyCase{"NoStart", Body(R"("command":"ADD","config":{})"), "startedBootNanos is missing"},
        BadBodyCase{
            "NegativeStart", Body(R"("command":"ADD","startedBootNanos":-1,"config":{})"), "startedBootNanos must"},
        BadBodyCase{"NoConfig", Body(R"("command":"ADD","startedBootNanos":1)"), "config is missing"},
        BadBodyCase{
            "WrongType", Body(R"("command":"ADD","args":5,"startedBootNanos":1,"config":{})"), "args is a number"},
        BadBodyCase{"BadContainer",
                    Body(R"("containerID":"a/b","command":"ADD","startedBootNanos":1,"config":{})"),
                    "invalid characters in CNI_CONTAINERID"},
        BadBodyCase{"NulByte",
                    Body(R"("containerID":"a\u0000b","command":"ADD","startedBootNanos":1,"config":{})"),
                    "containerID holds a NUL byte"},
        BadBodyCase{"BadHex",
                    Body(R"("ifname":{"hex":"6"},"command":"ADD","startedBootNanos":1,"config":{})"),
                    "ifname.hex is not a string of bytes in hex"},
        BadBodyCase{"SignedHex",
                    Body(R"("ifname":{"hex":"-1"},"command":"ADD","startedBootNanos":1,"config":{})"),
                    "ifname.hex is not a string of bytes in hex"}),
    [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::cni
