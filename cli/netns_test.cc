// SPDX-License-Identifier: Apache-2.0
// Netns: compares configured addresses with entries, and reads addresses where the test may do so.
#include "cli/netns.h"

#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_inventory.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct NetnsCase {
  const char* name;
  std::vector<std::pair<const char*, const char*>> configured;  // address and namespace
  std::function<void(Inventory&)> change;
  const char* kind;  // kind of the only finding; empty: no finding
  const char* about = "";
};

class NetnsTable : public testing::TestWithParam<NetnsCase> {};

TEST_P(NetnsTable, FindsWhatIsWrongAndNothingElse) {
  const NetnsCase& c = GetParam();
  Inventory inventory = HealthyInventory();
  if (c.change) c.change(inventory);
  std::vector<Configured> configured;
  for (const auto& [address, netns] : c.configured) {
    configured.push_back({.address = ipam::Address::Parse(address).value(), .netns = netns});
  }
  const auto checked = CheckConfigured(inventory, configured, "n1");
  ASSERT_TRUE(checked.has_value()) << checked.error().message;
  const std::vector<Finding>& findings = *checked;
  if (*c.kind == '\0') {
    EXPECT_THAT(findings, IsEmpty()) << findings[0].kind << ": " << findings[0].message;
    return;
  }
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, c.kind);
  EXPECT_THAT(findings[0].address + " " + findings[0].message, HasSubstr(c.about));
  EXPECT_NE(findings[0].remedy, "");
}

const NetnsCase kNetnsCases[] = {
    {"Healthy", {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}}, nullptr, ""},
    {"OtherNetworksAreNotOurs",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"192.0.2.7", "cni-a"}, {"192.0.2.7", "cni-b"}},
     nullptr,
     ""},
    {"TwoHaveIt",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"10.55.0.1", "cni-c"}},
     nullptr,
     "duplicate",
     "10.55.0.1 the network namespaces cni-a and cni-c both have this address"},
    {"TwoAddressSpacesHaveIt",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"10.55.0.1", "cni-c"}},
     AddOtherSpace,
     ""},
    {"OneMoreHasItThanThereAreAddressSpaces",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"10.55.0.1", "cni-c"}, {"10.55.0.1", "cni-d"}},
     AddOtherSpace,
     "duplicate",
     "10.55.0.1"},
    {"TwiceInOne", {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"10.55.0.1", "cni-a"}}, nullptr, ""},
    {"NoEntry",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"10.55.0.9", "cni-c"}},
     nullptr,
     "not-recorded",
     "10.55.0.9 the network namespace cni-c has this address"},
    {"ACoolingEntryIsNone",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}, {"10.55.0.3", "cni-c"}},
     nullptr,
     "not-recorded",
     "10.55.0.3"},
    {"AnEntryOfAnotherNodeIsNone",
     {{"10.55.0.1", "cni-a"}},
     [](Inventory& i) {
       i.blocks[0].node = "n2";
       i.pods = {};
     },
     "not-recorded",
     "10.55.0.1"},
    {"NowhereConfigured",
     {{"10.55.0.1", "cni-a"}},
     nullptr,
     "not-configured",
     "10.55.0.2 pod team-a/db-0 runs on this node"},
    {"NowhereConfiguredYet", {{"10.55.0.1", "cni-a"}}, [](Inventory& i) { PodOf(i, "db-0").phase = "Pending"; }, ""},
    {"WhatCannotBeReadMayBeIts",
     {{"10.55.0.1", "cni-a"}, {"10.55.0.2", "cni-b"}},
     [](Inventory& i) { i.blocks[0].allocations[2] = "nonsense"; },
     ""},
};
INSTANTIATE_TEST_SUITE_P(Table, NetnsTable, testing::ValuesIn(kNetnsCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Netns, AnUnknownNodeIsAnError) {
  const auto checked = CheckConfigured(HealthyInventory(), {}, "worker-1");
  ASSERT_FALSE(checked.has_value());
  EXPECT_THAT(checked.error().message, HasSubstr("no Node \"worker-1\""));
}

// If CheckConfigured returned findings, people would restart every pod.
TEST(Netns, AFolderWithNoneOfTheAddressesIsAnError) {
  const auto checked = CheckConfigured(HealthyInventory(), {}, "n1");
  ASSERT_FALSE(checked.has_value());
  EXPECT_THAT(checked.error().message, HasSubstr("none of the 2 addresses"));
}

TEST(Netns, AFolderThatIsNotThereIsAnErrorAndAnEmptyOneIsNot) {
  const auto missing = ReadConfigured("/nowhere/netns");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/netns"));
  const std::string empty = testing::TempDir() + "/netns-none";
  std::filesystem::create_directories(empty);
  const auto none = ReadConfigured(empty);
  ASSERT_TRUE(none.has_value()) << none.error().message;
  EXPECT_THAT(*none, IsEmpty());
}

}  // namespace
}  // namespace berth::cli
