// SPDX-License-Identifier: Apache-2.0
// Release: which addresses may be released, and what is written.
#include "cli/release.h"

#include <chrono>
#include <functional>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_inventory.h"
#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/clock.h"
#include "k8sclient/testing/date_adder.h"
#include "k8sclient/testing/model_api.h"

namespace berth::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct ReleaseCase {
  const char* name;
  const char* entry;
  std::optional<Pod> pod;
  bool node_is_ready;
  bool node_is_gone;
  bool is_sure;
  const char* refused;       // part of the error message; empty: the address is released
  bool agent_looks = false;  // the new entry contains the old one
};

class ReleaseTable : public testing::TestWithParam<ReleaseCase> {};

TEST_P(ReleaseTable, FreesOnlyWhatNobodyCanHave) {
  const ReleaseCase& c = GetParam();
  Inventory inventory = HealthyInventory();
  inventory.blocks[0].allocations[1] = c.entry;
  const auto use = FindUse(inventory, ipam::Address::Parse("10.55.0.1").value(), "default");
  ASSERT_TRUE(use.has_value()) << use.error().message;
  const PodAndNode live{
      .pod = c.pod, .node_is_ready_or_gone = c.node_is_ready || c.node_is_gone, .node_is_gone = c.node_is_gone};
  const auto block = Released(*use, live, c.is_sure, 1'000);
  if (*c.refused != '\0') {
    ASSERT_FALSE(block.has_value());
    EXPECT_THAT(block.error().message, HasSubstr(c.refused));
    EXPECT_NE(block.error().details, "");
    return;
  }
  ASSERT_TRUE(block.has_value()) << block.error().message;
  ipam::Block wanted = inventory.blocks[0];
  const bool was_freed = std::string_view(c.entry).starts_with("~ ");  // then the cooling ends as before
  wanted.allocations[1] = std::string(was_freed ? "~ t=5" : "~ t=61000") +
                          std::string(" f=0123456789ab-aaaaaaaaaaaaaaaa") + (c.agent_looks ? " " : "") +
                          (c.agent_looks ? c.entry : "");
  EXPECT_EQ(*block, wanted);
}

const std::string kEntry = HeldText("team-a/web-0", kWebUid, 'a');
const std::string kStatic = HeldText("team-a/web-0", "0123456789abcdef", 'a');
const std::string kUnknown = HeldText("-/-", "-", 'a');
const std::string kWithNetns = kEntry + " ns=cni-1";
const std::string kFreed = "~ t=5 f=0123456789ab-aaaaaaaaaaaaaaaa " + kWithNetns;

Pod Named(const char* uid, const char* phase) {
  Pod pod = RunningPod("web-0", uid, "10.55.0.1");
  pod.phase = phase;
  return pod;
}

const ReleaseCase kReleaseCases[] = {
    {"PodIsGone", kEntry.c_str(), {}, true, false, false, ""},
    {"PodIsAnother", kEntry.c_str(), RunningPod("web-0", "6f7d0c9e-other", "10.55.0.7"), true, false, false, ""},
    {"PodIsAnotherAndHasTheAddress",
     kEntry.c_str(),
     Named("6f7d0c9e-other", "Running"),
     true,
     false,
     true,
     "in the status of the running pod team-a/web-0"},
    {"PodHasEnded", kEntry.c_str(), Named(kWebUid, "Succeeded"), true, false, false, ""},
    {"PodRuns", kEntry.c_str(), Named(kWebUid, "Running"), true, false, false, "in use by pod team-a/web-0"},
    {"PodRunsAndSomebodyIsSure", kEntry.c_str(), Named(kWebUid, "Running"), true, false, true, "in use by pod"},
    {"TheAgentCanLookForTheSandbox", kWithNetns.c_str(), {}, true, false, false, "", true},
    {"TheAgentCouldLookButSomebodyIsSure", kWithNetns.c_str(), {}, true, false, true, ""},
    {"NoAgentLooksBecauseTheNodeIsGone", kWithNetns.c_str(), {}, false, true, false, ""},
    {"NodeIsNotReady", kEntry.c_str(), {}, false, false, false, "on node n1, which is not Ready"},
    {"NodeIsGone", kEntry.c_str(), {}, false, true, false, ""},
    {"StaticPod", kStatic.c_str(), {}, true, false, false, "a static pod"},
    {"StaticPodAndSomebodyIsSure", kStatic.c_str(), {}, true, false, true, ""},
    {"StaticPodOfAGoneNode", kStatic.c_str(), {}, false, true, false, ""},
    {"UnknownPod", kUnknown.c_str(), {}, true, false, false, "an unknown pod"},
    {"UnknownPodAndSomebodyIsSure", kUnknown.c_str(), {}, true, false, true, ""},
    {"FreedAndNoAgentHasLooked", kFreed.c_str(), {}, true, false, false, "no agent has looked"},
    {"FreedAndSomebodyIsSure", kFreed.c_str(), {}, true, false, true, ""},
    {"FreedAndSomebodyIsSureOfAGoneNode", kFreed.c_str(), {}, false, true, true, ""},
    {"FreedOnANodeThatIsNotReady", kFreed.c_str(), {}, false, false, true, "on node n1, which is not Ready"},
    {"FreedAndThePodRuns", kFreed.c_str(), Named(kWebUid, "Running"), true, false, true, "in use by pod team-a/web-0"},
    {"FreedAndThePodHasAnotherAddress",
     kFreed.c_str(),
     RunningPod("web-0", kWebUid, "10.55.0.7"),
     true,
     false,
     true,
     ""},
    {"Resting", "~ t=5", {}, true, false, true, "held by no pod"},
    {"Reserved", "! printer", {}, true, false, true, "held by no pod"},
    {"NotUnderstood", "what is this", {}, true, false, true, "does not understand"},
};
INSTANTIATE_TEST_SUITE_P(Table, ReleaseTable, testing::ValuesIn(kReleaseCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(FindUse, NamesTheAddressThatNobodyHas) {
  const Inventory inventory = HealthyInventory();
  for (const char* space : {"default", "blue"}) {
    const auto use = FindUse(inventory, ipam::Address::Parse("10.55.0.9").value(), space);
    ASSERT_FALSE(use.has_value());
    EXPECT_EQ(use.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(use.error().message, HasSubstr("10.55.0.9 in space " + std::string(space)));
  }
}

class SharedRelease : public testing::TestWithParam<const char*> {};

// Each entry is in a Shared block. None of them names a node, so berthctl cannot check anything.
TEST_P(SharedRelease, OfWhatNobodyHasIsRefused) {
  k8sclient::testing::ModelApi api;
  Inventory inventory = HealthyInventory();
  ipam::Block block = ipam::NewBlock(inventory.pools[0].pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "");
  block.allocations = {{3, GetParam()}};
  api.Put(std::string(crds::kBlocksPath), crds::BlockToJson(block));
  const auto released = Releaser(api).Perform(
      {.address = ipam::Address::Parse("10.55.0.3").value(), .space = "default", .is_sure = true});
  ASSERT_FALSE(released.has_value());
  EXPECT_EQ(released.error().code, ErrorCode::kInvalid);
}

INSTANTIATE_TEST_SUITE_P(Entries, SharedRelease,
                         testing::Values("~ t=5", "! printer", "what is this",
                                         "team-a/web-0 u 0123456789ab-aaaaaaaaaaaaaaaa i=eth0 t=1"),
                         [](const auto& c) { return std::to_string(c.index); });

TEST(Release, SaysIfTheNodesAgentMayWriteTheEntryAgain) {
  for (const bool is_sure : {false, true}) {
    k8sclient::testing::ModelApi api;
    ipam::Block block =
        ipam::NewBlock(HealthyInventory().pools[0].pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
    block.allocations = {{1, kWithNetns}};
    api.Put(std::string(crds::kBlocksPath), crds::BlockToJson(block));
    api.Put("/api/v1/nodes",
            {{"metadata", {{"name", "n1"}}}, {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
    const auto released = Releaser(api).Perform(
        {.address = ipam::Address::Parse("10.55.0.1").value(), .space = "default", .is_sure = is_sure});
    ASSERT_TRUE(released.has_value()) << released.error().message;
    EXPECT_EQ(released->contains("the agent of node n1 writes the entry again"), !is_sure) << *released;
    EXPECT_EQ(released->contains("--sure"), !is_sure) << *released;
  }
}

TEST(Release, ReadsTheClusterOnceForManyAddressesOfABlockThatOthersWriteToo) {
  k8sclient::testing::ModelApi api;
  ipam::Block block =
      ipam::NewBlock(HealthyInventory().pools[0].pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  for (ipam::BlockOffset offset = 1; offset < 9; ++offset) block.allocations[offset] = kEntry;
  const std::string blocks(crds::kBlocksPath);
  api.Put(blocks, crds::BlockToJson(block));
  int lists = 0;
  int next = 20;
  api.SetFaults([&](const k8sclient::Request& request) {
    lists += request.path == "/api/v1/pods" ? 1 : 0;
    const bool is_write = request.method == k8sclient::Method::kPatch;
    if (is_write && next++ % 2 == 0) api.Change(blocks, block.name, [](auto& object) { object["next"] = 9; });
    return k8sclient::testing::ApiFault::kNone;
  });
  Releaser releaser(api);
  for (int last = 1; last < 9; ++last) {
    const auto address = ipam::Address::Parse("10.55.0." + std::to_string(last)).value();
    const auto released = releaser.Perform({.address = address, .space = "default", .is_sure = true});
    ASSERT_TRUE(released.has_value()) << released.error().message;
  }
  EXPECT_EQ(lists, 1);
  const auto objects = api.Objects(blocks);
  for (const auto& entry : objects.front()["allocations"]) {
    EXPECT_TRUE(entry.get<std::string>().starts_with("~ ")) << entry;
  }
}

// The runtime passes UIDs that are not those of the pods, so only the pod's status shows who has the address.
TEST(Release, ReadsThePodsAgainIfTheEntryHasChangedMeanwhile) {
  k8sclient::testing::ModelApi api;
  ipam::Block block =
      ipam::NewBlock(HealthyInventory().pools[0].pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  block.allocations = {{1, kEntry}};
  const std::string blocks(crds::kBlocksPath);
  api.Put(blocks, crds::BlockToJson(block));
  bool is_first = true;
  api.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch || !std::exchange(is_first, false))
      return k8sclient::testing::ApiFault::kNone;
    api.Change(
        blocks, block.name, [](auto& object) { object["allocations"]["1"] = HeldText("team-a/new", "x-y", 'd'); });
    api.Put("/api/v1/pods",
            {{"metadata", {{"namespace", "team-a"}, {"name", "new"}, {"uid", "another"}}},
             {"spec", {{"nodeName", "n1"}}},
             {"status", {{"phase", "Running"}, {"podIPs", {{{"ip", "10.55.0.1"}}}}}}});
    return k8sclient::testing::ApiFault::kNone;
  });
  const auto released = Releaser(api).Perform(
      {.address = ipam::Address::Parse("10.55.0.1").value(), .space = "default", .is_sure = true});
  ASSERT_FALSE(released.has_value()) << *released;
  EXPECT_THAT(released.error().message, HasSubstr("in the status of the running pod team-a/new"));
}

// The node compares the end of the cooling with the API server's clock, not with the laptop's.
TEST(ReleaseOnALaptop, TheAddressRestsByTheApiServersClock) {
  for (const std::chrono::hours ahead : {-24h * 365, -1h, 1h, 24h * 365}) {
    k8sclient::testing::ModelApi model;
    const auto server_now = [ahead] { return k8sclient::RealClock().WallNow() - ahead; };
    k8sclient::testing::DateAdder api(model, server_now);
    ipam::Block block =
        ipam::NewBlock(HealthyInventory().pools[0].pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
    block.allocations = {{1, kEntry}};
    model.Put(std::string(crds::kBlocksPath), crds::BlockToJson(block));
    const auto released = Releaser(api).Perform(
        {.address = ipam::Address::Parse("10.55.0.1").value(), .space = "default", .is_sure = true});
    ASSERT_TRUE(released.has_value()) << released.error().message;
    const auto entry =
        ipam::ParseEntry(model.Objects(std::string(crds::kBlocksPath)).front()["allocations"]["1"].get<std::string>());
    ASSERT_TRUE(std::holds_alternative<ipam::CoolingEntry>(entry));
    const auto until = std::chrono::sys_time<std::chrono::milliseconds>(
        std::chrono::milliseconds(std::get<ipam::CoolingEntry>(entry).until_ms));
    EXPECT_LT(std::chrono::abs(until - server_now() - 60s), 10s) << ahead.count();
  }
}

}  // namespace
}  // namespace berth::cli
