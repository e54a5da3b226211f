// SPDX-License-Identifier: Apache-2.0
// Whole agents but for their watches: 20,000 connections that say nothing are no part of the question.
#include "bench/claims_run.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "bench/agent_node.h"
#include "bench/bench_cluster.h"
#include "bench/held_api.h"
#include "crds/names.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"

namespace berth::bench {

using ipam::Expected;

namespace {

constexpr const char* kPool = "claims";
constexpr int kAgentsOnAConnection = 20;
constexpr std::chrono::seconds kLimit{600};
constexpr std::chrono::milliseconds kLookEvery{100};

// Lets several agents use one HeldApi.
class SharedApi final : public k8sclient::Api {
 public:
  explicit SharedApi(std::shared_ptr<k8sclient::Api> api) : api_(std::move(api)) {}
  [[nodiscard]] Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                                   const k8sclient::CallOptions& options) override {
    return api_->Call(request, options);
  }
  [[nodiscard]] Expected<k8sclient::Response> Watch(const k8sclient::Request& request,
                                                    const k8sclient::WatchOptions& options,
                                                    const k8sclient::WatchSink& sink) override {
    return api_->Watch(request, options, sink);
  }

 private:
  std::shared_ptr<k8sclient::Api> api_;
};

using Agents = std::vector<std::unique_ptr<AgentNode>>;

Expected<Agents> MakeAgents(const ClaimsOptions& options, PostCounts& posts) {
  auto config = k8sclient::LoadKubeconfig({options.agent_kubeconfig}, /*context=*/"", k8sclient::ReadWholeFile);
  if (!config) return std::unexpected(config.error());
  Agents agents;
  std::shared_ptr<k8sclient::Api> shared;
  for (int index = 0; index < options.agents; ++index) {
    if (index % kAgentsOnAConnection == 0) {
      auto api = k8sclient::HttpApi::Make(*config, {.user_agent = "berth-agent"});
      if (!api) return std::unexpected(api.error());
      shared = std::make_shared<HeldApi>(*std::move(api), std::string(crds::kBlocksPath), posts);
    }
    auto node = AgentNode::Make(std::make_unique<SharedApi>(shared),
                                {.node = fmt::format("claimer-{:04}", index),
                                 .pool = kPool,
                                 .state_dir = options.state_dir,
                                 .run_dir = options.run_dir,
                                 .server = config->server,
                                 .watches_blocks = false});
    if (!node) return std::unexpected(node.error());
    agents.push_back(*std::move(node));
  }
  return agents;
}

void Stop(Agents& agents) {
  for (const auto& agent : agents) agent->agent().BeginStop();
  constexpr std::size_t kAtOnce = 50;
  std::vector<std::jthread> stopping;
  for (std::size_t first = 0; first < kAtOnce; ++first) {
    stopping.emplace_back([&agents, first] {
      for (std::size_t index = first; index < agents.size(); index += kAtOnce) agents[index].reset();
    });
  }
}

}  // namespace

Expected<std::string> RunClaims(const ClaimsOptions& options, const Progress& progress) {
  const auto cluster = BenchCluster::Open(options.kubeconfig);
  if (!cluster) return std::unexpected(cluster.error());
  const auto pool = cluster->MakePool({.name = kPool, .subnet = "10.112.0.0/12"});
  if (!pool) return std::unexpected(pool.error());
  PostCounts posts;
  auto agents = MakeAgents(options, posts);
  if (!agents) return std::unexpected(agents.error());

  const auto begin = std::chrono::steady_clock::now();
  for (const auto& agent : *agents) agent->agent().Start();
  const auto passed = [begin] { return std::chrono::steady_clock::now() - begin; };
  std::chrono::seconds said{0};
  while (posts.created < agents->size() && passed() < kLimit) {
    std::this_thread::sleep_for(kLookEvery);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(passed());
    if (std::exchange(said, seconds) != seconds) {
      progress(fmt::format("{} agents, {} blocks after {} s", options.agents, posts.created.load(), seconds.count()));
    }
  }
  const double seconds = std::chrono::duration<double>(passed()).count();
  Stop(*agents);
  const auto totals = cluster->CountBlocks(kPool);
  if (!totals) return std::unexpected(totals.error());
  const std::size_t blocks = totals->blocks;

  const double per_block = static_cast<double>(posts.sent) / static_cast<double>(std::max<std::size_t>(blocks, 1));
  const bool all = blocks == static_cast<std::size_t>(options.agents);
  return fmt::format(
      "{} agents started at once: {} blocks after {:.1f} s, {} POSTs, {} of them refused as the name was taken\n\n"
      "Goals\n  {:<8} all have a block within 60 s\n  {:<8} at most 1.5 POSTs per block: {:.2f}\n",
      options.agents,
      blocks,
      seconds,
      posts.sent.load(),
      posts.refused.load(),
      all && seconds <= 60 ? "reached" : "MISSED",
      per_block <= 1.5 ? "reached" : "MISSED",
      per_block);
}

}  // namespace berth::bench
