// SPDX-License-Identifier: Apache-2.0
// Options: defaults, and what is refused.
#include "reconciler/options.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace berth::reconciler {
namespace {

std::variant<Options, http::ProbeOptions, Exit> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "berth-controller");
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data(), "1.2.3 (commit abc)");
}

TEST(Options, HaveDefaults) {
  const auto parsed = Parse({});
  ASSERT_TRUE(std::holds_alternative<Options>(parsed));
  const Options& options = std::get<Options>(parsed);
  EXPECT_EQ(options.kubeconfig, "");
  EXPECT_EQ(options.lease_namespace, "berth-system");
  EXPECT_EQ(options.lease_name, "berth-controller");
  EXPECT_TRUE(options.elects_leader);
  EXPECT_EQ(options.settings.reclaim, Reclaim::kOn);
  EXPECT_TRUE(options.settings.keeps_allocations);
  EXPECT_TRUE(options.settings.counts);
  EXPECT_EQ(options.settings.patches_per_second, 20);
  EXPECT_FALSE(options.logs_json);
}

TEST(Options, AreReadFromEveryFlag) {
  const auto parsed = Parse({"--kubeconfig",
                             "/k",
                             "--lease-namespace=ns",
                             "--lease-name=l",
                             "--no-leader-election",
                             "--reclaim=report",
                             "--allocations=off",
                             "--count=on",
                             "--node-patches-per-second=7",
                             "--health-address=[::1]:0",
                             "--extender-port=9747",
                             "--extender-cert=/c",
                             "--extender-key=/key",
                             "--extender-client-ca=/ca",
                             "--extender-address=10.0.0.7",
                             "--extender-resources=ipv4,ipv6",
                             "--log-level=debug",
                             "--log-format=json"});
  ASSERT_TRUE(std::holds_alternative<Options>(parsed));
  const Options& options = std::get<Options>(parsed);
  EXPECT_EQ(options.kubeconfig, "/k");
  EXPECT_EQ(options.lease_namespace, "ns");
  EXPECT_FALSE(options.elects_leader);
  EXPECT_EQ(options.settings.reclaim, Reclaim::kReport);
  EXPECT_FALSE(options.settings.keeps_allocations);
  EXPECT_TRUE(options.settings.counts);
  EXPECT_EQ(options.settings.patches_per_second, 7);
  EXPECT_EQ(options.health_address, "[::1]:0");
  EXPECT_EQ(options.extender_port, 9747);
  EXPECT_EQ(options.extender_cert, "/c");
  EXPECT_EQ(options.extender_key, "/key");
  EXPECT_EQ(options.extender_client_ca, "/ca");
  EXPECT_EQ(options.extender_address, "10.0.0.7");
  EXPECT_EQ(options.extender_resources, "ipv4,ipv6");
  EXPECT_TRUE(options.logs_json);
}

TEST(Options, OfTheExtenderSayWhatPodsNeedThatRequestNothing) {
  EXPECT_FALSE(std::get<Options>(Parse({})).settings.unrequested);
  const auto parsed = Parse({"--extender-port=9747",
                             "--extender-cert=/c",
                             "--extender-key=/k",
                             "--extender-address=10.0.0.7",
                             "--extender-resources=ipv4,ipv6"});
  ASSERT_TRUE(std::holds_alternative<Options>(parsed));
  EXPECT_EQ(std::get<Options>(parsed).settings.unrequested,
            (std::vector<UnitRequest>{{.resource = "ipv4", .units = 1}, {.resource = "ipv6", .units = 1}}));
}

TEST(Options, CanSwitchTheAddressCountsOff) { EXPECT_FALSE(std::get<Options>(Parse({"--count=off"})).settings.counts); }

struct RefusedCase {
  const char* name;
  std::vector<const char*> arguments;
};
class OptionsRefused : public testing::TestWithParam<RefusedCase> {};

TEST_P(OptionsRefused, EndTheProgramWithCode2) {
  testing::internal::CaptureStderr();
  const auto parsed = Parse(GetParam().arguments);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(std::holds_alternative<Exit>(parsed));
  EXPECT_EQ(std::get<Exit>(parsed).code, 2);
  EXPECT_NE(said.find("--help"), std::string::npos) << said;
}

const RefusedCase kRefusedCases[] = {
    {"UnknownFlag", {"--verbose"}},
    {"UnknownLevel", {"--log-level", "loud"}},
    {"UnknownReclaim", {"--reclaim", "maybe"}},
    {"UnknownAllocations", {"--allocations", "maybe"}},
    {"UnknownCount", {"--count", "maybe"}},
    {"NoPatchASecond", {"--node-patches-per-second=0"}},
    {"TooManyPatchesASecond", {"--node-patches-per-second=1001"}},
    {"UnknownFormat", {"--log-format", "xml"}},
    {"MissingValue", {"--kubeconfig"}},
    {"StrayWord", {"start"}},
    {"LeaseWithoutName", {"--lease-name", ""}},
    {"LeaseWithoutNamespace", {"--lease-namespace="}},
    {"ProbeOfNothing", {"probe", "--ready"}},
    {"ExtenderWithoutCertificate", {"--extender-port=9747", "--extender-key=/k", "--extender-address=10.0.0.7"}},
    {"ExtenderWithoutAddress", {"--extender-port=9747", "--extender-key=/k", "--extender-cert=/c"}},
    {"ExtenderPortTooLarge",
     {"--extender-port=65536", "--extender-key=/k", "--extender-cert=/c", "--extender-address=10.0.0.7"}},
    {"ExtenderWithoutNumbers",
     {"--extender-port=1", "--extender-key=/k", "--extender-cert=/c", "--extender-address=10.0.0.7", "--count=off"}},
};
INSTANTIATE_TEST_SUITE_P(Table, OptionsRefused, testing::ValuesIn(kRefusedCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Options, OfTheProbeAreReadFromItsOwnFlags) {
  const auto parsed = Parse({"probe", "--ready", "--socket", "/run/probe/s"});
  ASSERT_TRUE(std::holds_alternative<http::ProbeOptions>(parsed));
  EXPECT_TRUE(std::get<http::ProbeOptions>(parsed).asks_ready);
  EXPECT_EQ(std::get<http::ProbeOptions>(parsed).socket, "/run/probe/s");
}

TEST(Options, PrintTheVersion) {
  testing::internal::CaptureStdout();
  const auto parsed = Parse({"--version"});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "berth-controller 1.2.3 (commit abc)\n");
  ASSERT_TRUE(std::holds_alternative<Exit>(parsed));
  EXPECT_EQ(std::get<Exit>(parsed).code, 0);
}

TEST(Options, PrintHelpAndEndWithCode0) {
  testing::internal::CaptureStdout();
  const auto parsed = Parse({"--help"});
  const std::string said = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(std::holds_alternative<Exit>(parsed));
  EXPECT_TRUE(std::ranges::none_of(said, [](unsigned char c) { return c < ' ' && c != '\n'; })) << said;
  EXPECT_EQ(std::get<Exit>(parsed).code, 0);
  EXPECT_NE(said.find("--lease-namespace"), std::string::npos);
}

}  // namespace
}  // namespace berth::reconciler
