// SPDX-License-Identifier: Apache-2.0
// ParseConfig with randomly damaged input: the result is either a configuration, which the agent reads in the same way,
// or one JSON error object.
#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cni/config.h"
#include "cni/error.h"
#include "cni/forward.h"
#include "ipam/seeded.h"

namespace berth::cni {
namespace {

constexpr int kRounds = 5000;

constexpr std::string_view kSeedText =
    R"({"cniVersion":"1.1.0","name":"n1","type":"bridge","ipam":{"type":"berth","pools":["p1","p2"],)"
    R"("kubeconfig":"/etc/k","nodeName":"n1","timeoutSeconds":5,"routes":[{"dst":"0.0.0.0/0","gw":"10.1.2.1","mtu":1400}],)"
    R"("dns":{"nameservers":["10.0.0.10"]}},"runtimeConfig":{"ips":["10.1.2.3/24"],)"
    R"("io.kubernetes.cri.pod-annotations":{"ipam.berth.dev/pools":"p1"}},"args":{"cni":{"ips":["10.1.2.4"]}},)"
    R"("prevResult":{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24"}]},)"
    R"("cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]})";

// Replacements for a byte or a slice of the input: structure, wrong types, other encodings.
constexpr std::string_view kPieces[] = {"{",     "}",    "[",    "]",       "\"",      ",",    ":",    "null",
                                        "1e999", "-0",   "[[[[", "\\u0000", "\\ud800", "\xFF", "\xC3", "\xEF\xBB\xBF",
                                        "NaN",   "\"\"", "{}",   "[]",      "5",       "true"};

std::string Mutate(ipam::SeededRandom& random) {
  std::string text(kSeedText);
  const int changes = random.Between(1, 4);
  for (int i = 0; i < changes; ++i) {
    const std::size_t at = random.Below(text.size() + 1);
    const std::size_t length = std::min<std::size_t>(random.Below(12), text.size() - at);
    switch (random.Below(4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kPieces[random.Below(std::size(kPieces))]);
        break;
      case 2:
        text.replace(at, length, kPieces[random.Below(std::size(kPieces))]);
        break;
      default:
        text.replace(at, std::min<std::size_t>(1, length), 1, static_cast<char>(random.Below(256)));
    }
    if (text.empty()) text = "{";
  }
  return text;
}

void ExpectTheAgentReadsTheSame(const std::string& text, Verb verb, const NetworkConfig& config) {
  const Environment environment{.verb = verb, .container_id = "c1", .ifname = "eth0", .netns = "/n", .args = ""};
  const auto body = MakeForwardedBody({.environment = environment, .config = ParseConfigTree(text, verb).value()});
  ASSERT_TRUE(body.has_value()) << text;
  const auto call = ParseForwardedCall(*body);
  ASSERT_TRUE(call.has_value()) << *body;
  const auto again = ParseConfig(call->config, verb);
  ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << text;
  if (verb == Verb::kDel) {
    EXPECT_EQ(again->name, config.name) << text;
    EXPECT_EQ(again->ipam.timeout, config.ipam.timeout) << text;
  } else {
    EXPECT_EQ(*again, config) << text;
  }
}

void ExpectConfigurationOrOneErrorObject(const std::string& text, Verb verb, int& refused) {
  const auto config = ParseConfig(text, verb);
  if (config) {
    ExpectTheAgentReadsTheSame(text, verb, *config);
    return;
  }
  ++refused;
  const auto object = nlohmann::json::parse(ErrorJson(config.error(), VersionForErrors(text)), nullptr, false);
  ASSERT_TRUE(object.is_object()) << text;
  EXPECT_TRUE(object["code"].is_number_unsigned()) << text;
  EXPECT_FALSE(object["msg"].get<std::string>().empty()) << text;
}

TEST(ConfigMutation, EveryInputGivesAConfigurationOrOneErrorObject) {
  constexpr Verb kVerbs[] = {Verb::kAdd, Verb::kDel, Verb::kCheck, Verb::kGc, Verb::kStatus};
  int refused = 0;
  ipam::ForSeeds(kRounds, [&refused, &kVerbs](ipam::SeededRandom& random) {
    const std::string text = Mutate(random);
    ExpectConfigurationOrOneErrorObject(text, kVerbs[random.Below(std::size(kVerbs))], refused);
  });
  EXPECT_GT(refused, kRounds / 10) << "the damage does too little";
  EXPECT_LT(refused, kRounds) << "the damage leaves nothing readable";
}

}  // namespace
}  // namespace berth::cni
