// SPDX-License-Identifier: Apache-2.0
// Tests what ADDs that name unknown pools cost: requests, and memory of ClusterView.
#include "agent/cluster_view.h"

#include <chrono>
#include <string>
#include <vector>

#include "agent/agent_test_setup.h"
#include "ipam/engine_test_setup.h"

namespace berth::agent {
namespace {

using k8sclient::Request;

const std::string kPoolPrefix = std::string(crds::kPoolsPath) + "/";

class ClusterViewTest : public AgentTest {
 protected:
  Expected<ipam::PoolView> Read(const std::string& pool) {
    return view_.ReadLatest(pool, k8sclient::CallOptions::Within(std::chrono::seconds(10)));
  }

  ClusterView view_{api_, k8sclient::RealClock(), "n1", [] {}};
};

TEST_F(ClusterViewTest, KeepsTheProofOfAPoolThatExists) {
  ASSERT_NE(Read("p1").value(), nullptr);
  EXPECT_EQ(view_.CountProofs(), 1U);
}

TEST_F(ClusterViewTest, KeepsNoProofOfPoolsThatDoNotExist) {
  for (int i = 0; i < 64; ++i) ASSERT_EQ(Read("unknown-" + std::to_string(i)).value(), nullptr);
  EXPECT_EQ(view_.CountProofs(), 0U);
}

TEST_F(ClusterViewTest, KeepsNoProofOfPoolsThatCannotBeRead) {
  api_.SetFaults([](const Request&) { return ApiFault::kUnavailable; });
  for (int i = 0; i < 64; ++i) ASSERT_FALSE(Read("pool-" + std::to_string(i)).has_value());
  EXPECT_EQ(view_.CountProofs(), 0U);
}

// While another GET is under way, the result of a GET still matters.
TEST_F(ClusterViewTest, KeepsNoProofOfPoolsThatDoNotExistOnceTheLastGetHasEnded) {
  std::size_t during = 0;
  api_.SetFaults([&](const Request& request) {
    if (!request.path.ends_with("/outer")) return ApiFault::kNone;
    for (int i = 0; i < 64; ++i) EXPECT_EQ(Read("unknown-" + std::to_string(i)).value(), nullptr);
    during = view_.CountProofs();
    return ApiFault::kNone;
  });
  ASSERT_EQ(Read("outer").value(), nullptr);
  EXPECT_EQ(during, 64U);
  EXPECT_EQ(view_.CountProofs(), 0U);
}

TEST_F(ClusterViewTest, GivesCallsThatReadTheSameSharedBlockOneCopy) {
  ipam::Block block = ipam::NewBlock(
      ipam::TestPool("p1", "10.55.0.0/24", ipam::Affinity::kShared), ipam::Prefix::Parse("10.55.0.0/26").value(), "");
  block.uid = "u";
  block.resource_version = "7";
  const auto first = view_.Reuse(std::make_shared<const ipam::Block>(block));
  EXPECT_EQ(view_.Reuse(std::make_shared<const ipam::Block>(block)), first);
  view_.NoteShared(view_.SharedWrites(), {{first}});
  EXPECT_EQ(view_.Reuse(std::make_shared<const ipam::Block>(block)), first);
  block.allocations[3] = "! r";  // the API server may have been restored from a backup
  const auto changed = view_.Reuse(std::make_shared<const ipam::Block>(block));
  EXPECT_EQ(changed->allocations, block.allocations);
}

// A tenant may name 64 pools in an annotation of a pod.
TEST_F(AgentTest, AnAddThatNamesUnknownPoolsAsksForTheFirstUnknownOnly) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok) << "the agent knows p1";
  std::vector<std::string> asked;
  api_.SetFaults([&asked](const Request& request) {
    if (request.path.starts_with(kPoolPrefix)) asked.push_back(request.path.substr(kPoolPrefix.size()));
    return ApiFault::kNone;
  });
  auto body = nlohmann::json::parse(Body("ADD", "c2"));
  std::string names = "p1";
  for (int i = 1; i < 64; ++i) names += ",unknown-" + std::to_string(i);
  body["config"]["runtimeConfig"]["io.kubernetes.cri.pod-annotations"] = {{"ipam.berth.dev/pools", names}};
  const Reply reply = agent_->Handle(body.dump());
  EXPECT_TRUE(reply.body.contains("pool unknown-1, which the pod's annotation names, does not exist")) << reply.body;
  EXPECT_EQ(asked, std::vector<std::string>{"unknown-1"});
  api_.SetFaults(nullptr);
}

}  // namespace
}  // namespace berth::agent
