// SPDX-License-Identifier: Apache-2.0
// Cases 110 to 120: GC.
#include <thread>

#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_agent.h"
#include "e2e/conformance/node_proxy.h"

namespace berth::conformance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kKey = "cni.dev/valid-attachments";
constexpr const char* kOldKey = "cni.dev/attachments";

json Attachment(const char* id, const char* ifname = "eth0") { return {{"containerID", id}, {"ifname", ifname}}; }

class Garbage : public Conformance {
 protected:
  [[nodiscard]] Call Gc(const json& valid) {
    Call call = Base("GC");
    call.config[kKey] = valid;
    return call;
  }
  // Gives `id` an address and returns it.
  std::string Add(const char* id, const char* ifname = "eth0") {
    return Host(Addresses(Ok(Base("ADD").With("CNI_CONTAINERID", id).With("CNI_IFNAME", ifname))).at(0));
  }
};

TEST_F(Garbage, Case110_WhatIsNotListedIsFreed) {
  const std::string kept = Add("c1");
  Add("c2");
  OkSilently(Gc(json::array({Attachment("c1")})));
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case111_AnotherInterfaceOfTheSameContainerIsFreed) {
  const std::string kept = Add("c1");
  Add("c1", "eth1");
  OkSilently(Gc(json::array({Attachment("c1")})));
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case112_AnEmptyListAndNullFreeEverything) {
  Add("c1");
  OkSilently(Gc(json::array()));
  EXPECT_THAT(Allocated(), IsEmpty());
  Add("c1");
  OkSilently(Gc(nullptr));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// cnitool sends no list of valid attachments. Then berth frees nothing and returns no error.
TEST_F(Garbage, Case113_WithoutAListNothingIsFreed) {
  const std::string kept = Add("c1");
  OkSilently(Base("GC"));
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case114_TheOldKeyCountsOnlyWithoutTheNewOne) {
  const std::string kept = Add("c1");
  Add("c2");
  Call call = Base("GC");
  call.config[kOldKey] = json::array({Attachment("c1")});
  OkSilently(call);
  EXPECT_THAT(Allocated(), ElementsAre(kept));
  call.config[kOldKey] = json::array();
  call.config[kKey] = json::array({Attachment("c1")});
  OkSilently(call);
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case115_UnknownFieldsDuplicatesAndUnknownContainersAreFine) {
  const std::string kept = Add("c1");
  Add("c2");
  json known = Attachment("c1");
  known["future"] = {1, 2};
  OkSilently(Gc(json::array({known, known, Attachment("never-added")})));
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case116_AMalformedEntryFreesNothing) {
  Add("c1");
  Error(Gc({Attachment("c1"), {{"containerID", "c2"}}}), {7}, "ifname");
  Error(Gc({Attachment("c1"), "c2"}), {6}, kKey);
  Error(Gc(json::object()), {6}, kKey);
}

TEST_F(Garbage, Case117_OtherNetworksAndNodesAreLeftAlone) {
  const std::string shared = MakePool({{"affinity", "Shared"}});
  const std::string own = Host(Addresses(Ok(Base("ADD", {shared})))[0]);
  const std::string network = Host(Addresses(Ok(Base("ADD", {shared}).Config({{"name", "other-" + tag()}})))[0]);
  Call elsewhere = Base("ADD", {shared}).With("CNI_CONTAINERID", "c9");
  const std::string node = Settings::Get().NodeName(1);
  elsewhere.config["ipam"]["nodeName"] = node;
  elsewhere.config["ipam"]["kubeconfig"] = Settings::Get().NodeKubeconfig(node);
  std::unique_ptr<e2e::AgentProcess> agent;
  if (InAgentMode()) {
    agent = StartAgent(node, Settings::Get().NodeKubeconfig(node), Scratch());
    elsewhere = WithSocket(elsewhere, agent->settings().socket);
  }
  const std::string of_node = Host(Addresses(Ok(elsewhere))[0]);
  OkSilently(Gc(json::array()));
  EXPECT_THAT(Allocated(), testing::UnorderedElementsAre(network, of_node)) << "but not " << own;
}

TEST_F(Garbage, Case118_GcExistsFrom110OnAndMayBeRepeated) {
  const std::string kept = Add("c1");
  Error(Gc(json::array({Attachment("c1")})).Config({{"cniVersion", "1.0.0"}}), {1}, "GC");
  OkSilently(Gc(json::array({Attachment("c1")})));
  OkSilently(Gc(json::array({Attachment("c1")})));
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case119_OneFailedReleaseDoesNotKeepTheOthersAndIsListed) {
  const std::string first = MakePool();
  const std::string second = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", "10.1.3.1"}});
  NodeProxy node(Scratch());
  Ok(node.Through(Base("ADD", {first})));
  Ok(node.Through(Base("ADD", {second}).With("CNI_CONTAINERID", "c2")));
  node.proxy().Reset([](const e2e::SeenRequest& request) {
    return IsWrite(request) && request.target.find("10.1.2.0-29") != std::string::npos ? e2e::Fault::kCutBefore
                                                                                       : e2e::Fault::kNone;
  });
  Call gc = node.Through(Gc(json::array()));
  gc.config["ipam"]["timeoutSeconds"] = 8;
  ExpectError(Run(gc), {11}, "10.1.2.0-29");
  EXPECT_THAT(Allocated(), ElementsAre("10.1.2.2"));
  node.NoFaults();
  OkSilently(node.Through(Gc(json::array())));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// The runtime makes its list before the ADD.
TEST_F(Garbage, Case120_AnAddThatCameAfterTheGcIsNotFreed) {
  PluginProcess gc(Prepare(Gc(json::array())));
  ASSERT_TRUE(gc.AwaitReading());
  const std::string kept = Add("c1");
  EXPECT_EQ(gc.Wait().exit_code, 0);
  EXPECT_THAT(Allocated(), ElementsAre(kept));
}

TEST_F(Garbage, Case120_AnAddThatRunsBesideIsNotFreed) {
  NodeProxy node(Scratch());
  node.FaultAtWrite(0, e2e::Fault::kPause);
  PluginProcess add(Prepare(node.Through(Base("ADD"))));
  PluginOutcome added;
  std::jthread adding([&] { added = add.Wait(); });
  ASSERT_TRUE(node.proxy().AwaitHeld(std::chrono::seconds(60)));
  PluginProcess gc(Prepare(node.Through(Gc(json::array()))));
  ASSERT_TRUE(gc.AwaitReading());
  PluginOutcome collected;
  std::jthread collecting([&] { collected = gc.Wait(); });
  node.proxy().Resume();
  adding.join();
  collecting.join();
  EXPECT_EQ(added.exit_code, 0) << added.out;
  EXPECT_EQ(collected.exit_code, 0) << collected.out;
  EXPECT_THAT(Allocated(), SizeIs(1));
}

}  // namespace
}  // namespace berth::conformance
