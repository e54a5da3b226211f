// SPDX-License-Identifier: Apache-2.0
// Case 62: 200 ADDs at the same time, on one node and on 20 nodes, with a Node pool and with a Shared pool.
#include <sstream>
#include <stdexcept>

#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_agent.h"

namespace berth::conformance {
namespace {

using testing::SizeIs;

constexpr int kCalls = 200;
constexpr int kNodes = 20;
constexpr std::size_t kMetricsBytesMax = std::size_t{64} << 20;
// The limit of PATCHes of blocks per ADD. The calls of a node take turns, and if several nodes patch a block at once,
// one node succeeds. So in the worst case an ADD needs one PATCH per node, and one more for a repetition. Measured: 3
// PATCHes if 20 nodes share four blocks, and 12 on a busy machine.
double PatchesMax(int nodes) { return nodes + 1; }

class Case062 : public Conformance {
 protected:
  // The i-th of kCalls containers, spread over `nodes` nodes.
  [[nodiscard]] Call AddOf(int i, int nodes) {
    Call call = Base("ADD").With("CNI_CONTAINERID", "c" + std::to_string(i));
    const std::string node = "n" + std::to_string(1 + i % nodes);
    call.config["ipam"]["nodeName"] = node;
    call.config["ipam"]["timeoutSeconds"] = 240;  // enough on a busy machine
    call.config["ipam"]["kubeconfig"] = Settings::Get().NodeKubeconfig(node);
    call.config["ipam"]["agentSocket"] = Settings::Get().AgentSocket(node);
    call.config["ipam"]["stateDir"] = Settings::Get().StateDir(node);
    if (!agents_.contains(node)) return call;
    return WithSocket(call, agents_[node]->settings().socket);
  }

  void ExpectAllDifferent(int nodes) {
    if (InAgentMode() && nodes > 1) StartAgents(nodes);
    std::vector<Call> calls;
    for (int i = 0; i < kCalls; ++i) calls.push_back(AddOf(i, nodes));
    std::set<std::string> given;
    std::chrono::milliseconds longest{0};
    const std::int64_t before = PatchesOfBlocks();
    for (const PluginOutcome& outcome : RunAll(calls)) {
      ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
      given.insert(Addresses(json::parse(outcome.out)).at(0));
      longest = std::max(longest, outcome.took);
    }
    EXPECT_THAT(given, SizeIs(kCalls));
    EXPECT_THAT(Allocated(), SizeIs(kCalls));
    // The test limits PATCHes and not seconds, because seconds depend on the load of the machine.
    const double patches = static_cast<double>(PatchesOfBlocks() - before) / kCalls;
    EXPECT_LT(patches, PatchesMax(nodes));
    std::printf("%d ADDs through %d node(s): %.1f PATCHes each, the longest took %d ms\n",
                kCalls,
                nodes,
                patches,
                static_cast<int>(longest.count()));
  }

 private:
  // The number of PATCHes of blocks since the API server's start, from its metrics.
  static std::int64_t PatchesOfBlocks() {
    const auto answer = cluster().api().Call({.path = "/metrics", .response_bytes_max = kMetricsBytesMax},
                                             k8sclient::CallOptions::Within(std::chrono::seconds(20)));
    if (!answer || !answer->ok()) throw std::runtime_error("the API server says no metrics");
    std::istringstream lines(answer->body);
    std::int64_t count = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("apiserver_request_total{")) continue;
      if (!line.contains(R"(resource="ipblocks")") || !line.contains(R"(verb="PATCH")")) continue;
      count += std::stoll(line.substr(line.rfind(' ')));
    }
    return count;
  }

  // Starts agents for nodes of this test: an agent that finds another agent of its node would end.
  void StartAgents(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      const std::string node = "n" + std::to_string(1 + i);
      const std::string name = node + "-" + tag();
      agents_[node] = StartAgent(name, AgentKubeconfig(name, Scratch()), Scratch());
    }
    for (const auto& [node, agent] : agents_) ASSERT_TRUE(agent->AwaitReady()) << node << "\n" << LogOf(*agent);
  }

  std::map<std::string, std::unique_ptr<e2e::AgentProcess>> agents_;
};

TEST_F(Case062, ThroughOneNodeOnANodePool) {
  MakePool({{"subnet", "10.1.2.0/24"}});
  ExpectAllDifferent(1);
}

TEST_F(Case062, ThroughTwentyNodesOnANodePool) {
  MakePool({{"subnet", "10.1.0.0/20"}, {"gateway", "10.1.0.1"}});
  ExpectAllDifferent(kNodes);
}

TEST_F(Case062, ThroughOneNodeOnASharedPoolOfFourBlocks) {
  MakePool({{"subnet", "10.1.2.0/24"}, {"affinity", "Shared"}});
  ExpectAllDifferent(1);
}

TEST_F(Case062, ThroughTwentyNodesOnASharedPoolOfFourBlocks) {
  MakePool({{"subnet", "10.1.2.0/24"}, {"affinity", "Shared"}});
  ExpectAllDifferent(kNodes);
}

}  // namespace
}  // namespace berth::conformance
