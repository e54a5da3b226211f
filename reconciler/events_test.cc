// SPDX-License-Identifier: Apache-2.0
// Events: which changes cause one, and its text.
#include "reconciler/events.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

FreedEntry FreedOf(ipam::BlockOffset offset, const std::string& pod) {
  ipam::HeldEntry entry;
  entry.pod_namespace = "default";
  entry.pod = pod;
  return {.offset = offset, .entry = entry, .node = "n1"};
}

ipam::Block BlockOfEvents() {
  ipam::Block block;
  block.cidr = ipam::PrefixOf("10.55.0.0/26");
  block.name = "10.55.0.0-26";
  block.uid = "uid-1";
  return block;
}

struct WhyCase {
  const char* name;
  FreedEntry entry;
  std::string_view want;
};
class WhyFreedTest : public testing::TestWithParam<WhyCase> {};
TEST_P(WhyFreedTest, IsOneWord) { EXPECT_EQ(WhyFreed(GetParam().entry), GetParam().want); }
const WhyCase kWhyCases[] = {
    {"PodGone", {.entry = {}, .node = "n1"}, "pod-gone"},
    {"PodEnded", {.entry = {}, .node = "n1", .was_terminal = true}, "pod-ended"},
    {"SandboxReplaced", {.entry = {}, .node = "n1", .was_replaced = true}, "sandbox-replaced"},
    {"SandboxUnknown", {.entry = {}, .node = "n1", .sandbox_unknown = true}, "sandbox-unknown"},
    {"NodeGone", {.entry = {}, .node = "n1", .was_terminal = true, .node_is_gone = true}, "node-gone"},
};
INSTANTIATE_TEST_SUITE_P(Table, WhyFreedTest, testing::ValuesIn(kWhyCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Events, NameTheFreedAddressesAndTheirPods) {
  const Announcement got = FreedAnnouncement(BlockOfEvents(), {FreedOf(3, "web-0"), FreedOf(7, "web-1")});
  EXPECT_EQ(got.kind, "IPBlock");
  EXPECT_EQ(got.name, "10.55.0.0-26");
  EXPECT_EQ(got.uid, "uid-1");
  EXPECT_FALSE(got.is_warning);
  EXPECT_EQ(got.message,
            "freed addresses of pods that are gone and for which no DEL came: 10.55.0.3 of default/web-0 (pod-gone), "
            "10.55.0.7 of default/web-1 "
            "(pod-gone)");
}

TEST(Events, NameAtMostTenAddresses) {
  std::vector<FreedEntry> freed;
  for (ipam::BlockOffset i = 0; i < 64; ++i) freed.push_back(FreedOf(i, "web-" + std::to_string(i)));
  const std::string message = FreedAnnouncement(BlockOfEvents(), freed).message;
  EXPECT_TRUE(message.starts_with("freed addresses ")) << message;
  EXPECT_TRUE(message.ends_with("10.55.0.9 of default/web-9 (pod-gone) and 54 more")) << message;
}

TEST(Events, NameAtMostTenPairsOfPodsThatHaveTheSameAddress) {
  const std::vector<ContestedAddress> contested(12, {.block = "10.55.0.0-26", .block_uid = "uid-1", .text = "a pair"});
  const Announcement got = ContestedAnnouncement(contested);
  EXPECT_EQ(got.uid, "uid-1");
  EXPECT_TRUE(got.is_warning);
  EXPECT_TRUE(got.message.starts_with("delete one pod of each pair: a pair; a pair; ")) << got.message;
  EXPECT_TRUE(got.message.ends_with("; a pair and 2 more")) << got.message;
}

TEST(Events, HaveTheFormThatKubectlDescribeLooksFor) {
  const nlohmann::json event = EventOf({.kind = "IPBlock",
                                        .name = "10.55.0.0-26",
                                        .uid = "uid-1",
                                        .is_warning = true,
                                        .reason = "Why",
                                        .message = std::string(3000, 'x')},
                                       kTestNowMs);
  EXPECT_EQ(event["metadata"]["namespace"], "default");
  EXPECT_EQ(event["metadata"]["name"], "10.55.0.0-26.1800000000000.why");
  EXPECT_EQ(event["involvedObject"]["apiVersion"], "ipam.berth.dev/v1alpha1");
  EXPECT_EQ(event["involvedObject"]["kind"], "IPBlock");
  EXPECT_EQ(event["involvedObject"]["name"], "10.55.0.0-26");
  EXPECT_EQ(event["involvedObject"]["uid"], "uid-1");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["lastTimestamp"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(event["message"].get<std::string>().size(), kEventMessageMax);
}

TEST(Events, HaveNamesThatTheAPIServerAcceptsAndThatDiffer) {
  const std::string longest(253, 'a');
  std::set<std::string> names;
  for (const std::string& object :
       {longest, longest.substr(1) + "b", std::string(179, 'a') + "-." + std::string(70, 'a')}) {
    const std::string uid = "f0000000-0000-4000-8000-00000000000" + std::to_string(names.size());
    const nlohmann::json event = EventOf(
        {.kind = "IPPool", .name = object, .uid = uid, .reason = "FewerBlocksThanNodes", .message = "m"}, kTestNowMs);
    const auto name = event["metadata"]["name"].get<std::string>();
    EXPECT_LE(name.size(), 253U);
    EXPECT_THAT(name, testing::MatchesRegex("([a-z0-9]([-a-z0-9]*[a-z0-9])?\\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?"));
    EXPECT_EQ(event["involvedObject"]["name"], object);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 3U);
}

// A pool's condition before and after a write of its status.
struct ConditionCase {
  const char* name;
  const char* type;
  const char* before;  // "status/reason"; "": the condition was absent
  const char* after;
  std::string want;  // "" or "type reason"
};
class PoolEventsTest : public testing::TestWithParam<ConditionCase> {};

TEST_P(PoolEventsTest, AreWrittenForConditionsThatChanged) {
  const ConditionCase& c = GetParam();
  const auto pool_with = [&c](std::string_view text) {
    SeenPool pool;
    pool.meta.name = "web";
    if (text.empty()) return pool;
    const std::size_t slash = text.find('/');
    pool.status.conditions.push_back({.type = c.type,
                                      .status = std::string(text.substr(0, slash)),
                                      .reason = std::string(text.substr(slash + 1)),
                                      .message = "words"});
    return pool;
  };
  std::string got;
  for (const Announcement& one : PoolAnnouncements(pool_with(c.before), pool_with(c.after))) {
    got += std::string(one.is_warning ? "Warning " : "Normal ") + one.reason;
    EXPECT_EQ(one.message, "words");
    EXPECT_EQ(one.kind, "IPPool");
  }
  EXPECT_EQ(got, c.want);
}

const ConditionCase kConditionCases[] = {
    {"Accepted", "Ready", "", "True/Accepted", "Normal Accepted"},
    {"StillAccepted", "Ready", "True/Accepted", "True/Accepted", ""},
    {"Refused", "Ready", "", "False/InvalidRange", "Warning InvalidRange"},
    {"RefusedForAnotherReason", "Ready", "False/InvalidRange", "False/Disabled", "Warning Disabled"},
    {"AddressesLeftAtFirst", "Exhausted", "", "False/AddressesLeft", ""},
    {"Exhausted", "Exhausted", "False/AddressesLeft", "True/NoAddressLeft", "Warning NoAddressLeft"},
    {"NotExhaustedAnyMore", "Exhausted", "True/NoAddressLeft", "False/AddressesLeft", "Normal AddressesLeft"},
    {"TooManyOrphans", "Reclaiming", "", "False/TooManyOrphans", "Warning TooManyOrphans"},
    {"FewBlocks", "Scarce", "", "True/FewerBlocksThanNodes", "Warning FewerBlocksThanNodes"},
};
INSTANTIATE_TEST_SUITE_P(Table, PoolEventsTest, testing::ValuesIn(kConditionCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::reconciler
