// SPDX-License-Identifier: Apache-2.0
// An agent whose API server has an earlier release's CRDs: the agent works, and logs which features are missing.
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>

#include "e2e/agent/node_fixture.h"
#include "k8sclient/verbs.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

constexpr const char* kCrd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipblocks.ipam.berth.dev";
constexpr const char* kBlocks = "/apis/ipam.berth.dev/v1alpha1/ipblocks";

class OlderCrdTest : public NodeTest {
 protected:
  OlderCrdTest() : released_(k8sclient::Get(cluster().api(), kCrd, Soon()).value()["spec"]["versions"]) {
    json older = released_;
    older[0]["schema"]["openAPIV3Schema"]["properties"].erase("standby");
    Put(older);
  }
  void TearDown() override {
    Put(released_);
    EXPECT_TRUE(Eventually([this] { return KeepsStandby(); }));
    NodeTest::TearDown();
  }

  // Whether the API server stores the field standby of a block.
  [[nodiscard]] bool KeepsStandby() const {
    const std::string name = "s-" + tag() + ".10.77.0.0-26";
    const json block = {
        {"apiVersion", "ipam.berth.dev/v1alpha1"},
        {"kind", "IPBlock"},
        {"metadata", {{"name", name}}},
        {"spec",
         {{"space", "s-" + tag()}, {"pool", "none"}, {"poolUID", "none"}, {"cidr", "10.77.0.0/26"}, {"node", "none"}}},
        {"used", 0},
        {"free", 0},
        {"standby", {1}},
        {"allocations", json::object()}};
    const auto made = k8sclient::Create(cluster().api(), kBlocks, block, Soon());
    EXPECT_TRUE(made.has_value()) << made.error().message;
    EXPECT_TRUE(k8sclient::Delete(cluster().api(), std::string(kBlocks) + "/" + name, {}, Soon()).has_value());
    return made && made->contains("standby");
  }
  [[nodiscard]] std::string Log() const {
    std::ifstream log(scratch() + "/agent.log");
    return {std::istreambuf_iterator<char>(log), {}};
  }

 private:
  static k8sclient::CallOptions Soon() { return k8sclient::CallOptions::Within(std::chrono::seconds(10)); }
  static void Put(const json& versions) {
    const auto put = k8sclient::MergePatch(cluster().api(), kCrd, {{"spec", {{"versions", versions}}}}, Soon());
    ASSERT_TRUE(put.has_value()) << put.error().message;
  }

  json released_;
};

TEST_F(OlderCrdTest, AnAgentSaysWhatItLacksAndServes) {
  ASSERT_TRUE(Eventually([this] { return !KeepsStandby(); }));
  const auto agent = ReadyAgent();
  for (const char* id : {"c1", "c2", "c3"}) EXPECT_NE(AddressOf(RunPlugin(CallOf("ADD", id, SocketPath()))), "");
  EXPECT_TRUE(Eventually([this] { return Log().find("drops standby") != std::string::npos; }));
  EXPECT_THAT(Allocated(), testing::SizeIs(3));
  for (const char* id : {"c1", "c2", "c3"}) EXPECT_EQ(RunPlugin(CallOf("DEL", id, SocketPath())).exit_code, 0);
  EXPECT_TRUE(Eventually([this] { return Allocated().empty(); }));
}

}  // namespace
}  // namespace berth::e2e
