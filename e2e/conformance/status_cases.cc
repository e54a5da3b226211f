// SPDX-License-Identifier: Apache-2.0
// Cases 121 to 125: STATUS.
#include <filesystem>
#include <fstream>

#include "e2e/conformance/api_away.h"
#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_agent.h"
#include "e2e/conformance/node_proxy.h"

namespace berth::conformance {
namespace {

TEST_F(Conformance, Case121_AHealthyNodeSaysNothing) { OkSilently(Base("STATUS")); }

// A short outage must not make every node NotReady, so only an agent that has never loaded its blocks returns code 50.
TEST_F(Conformance, Case122_AnApiServerThatIsAwayIsCode50) {
  const RefusingServer refusing;
  const std::string kubeconfig = WriteKubeconfig(Scratch(), refusing.Url());
  if (InAgentMode()) {
    const auto unready = StartAgent("refused-" + tag(), kubeconfig, Scratch());
    const std::string& socket = unready->settings().socket;
    ASSERT_TRUE(Eventually([&] { return e2e::GetOverSocket(socket, "/healthz").has_value(); }));
    Error(WithSocket(Base("STATUS"), socket), {50});
    NodeProxy node(Scratch());
    node.FaultAlways(e2e::Fault::kCutBefore);
    OkSilently(node.Through(Base("STATUS")));
    return;
  }
  const Call call = WithKubeconfig(Base("STATUS"), kubeconfig);
  Error(call, {50}, "127.0.0.1");
  Error(WithKubeconfig(Base("STATUS"), Scratch() + "/missing.kubeconfig"), {50}, "missing.kubeconfig");
}

// If STATUS failed for a full pool, every node would become NotReady (contract, section 4).
TEST_F(Conformance, Case123_AFullPoolIsNoReasonToFail) {
  for (const char* id : {"c1", "c2", "c3", "c4", "c5"}) Ok(Base("ADD").With("CNI_CONTAINERID", id));
  OkSilently(Base("STATUS"));
}

TEST_F(Conformance, Case124_AnInvalidConfigurationIsAnError) {
  Call call = Base("STATUS");
  call.config["ipam"] = json::object();
  Error(call, {7}, "ipam.type");
  Error(Base("STATUS").Config({{"ipam", {{"pools", {"NOT A NAME"}}}}}), {7}, "NOT A NAME");
  Error(Base("STATUS").Config({{"cniVersion", "1.0.0"}}), {1}, "STATUS");
}

TEST_F(Conformance, Case125_RepeatedStatusLeavesNothingBehind) {
  Call call = Base("STATUS");
  if (!InAgentMode()) {
    call.config["ipam"]["agentSocket"] = Scratch() + "/run/agent.sock";
    call.config["ipam"]["stateDir"] = Scratch() + "/state";
    std::filesystem::create_directory(Scratch() + "/state");
    std::ofstream(Scratch() + "/state/mode") << "direct\n";
  }
  const auto files = [this] {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Scratch())) paths.insert(entry.path());
    return paths;
  };
  OkSilently(call);
  const auto before = files();
  for (int i = 0; i < 5; ++i) OkSilently(call);
  EXPECT_EQ(files(), before);
  EXPECT_THAT(Allocated(), testing::IsEmpty());
  EXPECT_THAT(cluster().Blocks(pools()[0]), testing::IsEmpty());
}

}  // namespace
}  // namespace berth::conformance
