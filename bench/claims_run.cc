// SPDX-License-Identifier: Apache-2.0
// Each node has a complete agent with a client of its own. One thread per node sends the requests of an agent's start
// (Agent::LoadAndClaim). The agents open no watches, which would cost only idle connections and their threads.
#include "bench/claims_run.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "bench/agent_node.h"
#include "bench/bench_cluster.h"
#include "bench/claim_counts.h"
#include "bench/process_figures.h"
#include "bench/server_metrics.h"
#include "crds/names.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"

namespace berth::bench {

using std::chrono::steady_clock;

namespace {

constexpr const char* kClaimsPool = "claims";
constexpr std::chrono::seconds kLimit{300};
constexpr int kNicest = 19;

using Agents = std::vector<std::unique_ptr<AgentNode>>;

Expected<Agents> MakeAgents(const ClaimsOptions& options, ClaimCounts& counts) {
  auto config = k8sclient::LoadKubeconfig({options.agent_kubeconfig}, /*context=*/"", k8sclient::ReadWholeFile);
  if (!config) return std::unexpected(config.error());
  Agents agents;
  for (int index = 0; index < options.agents; ++index) {
    auto api = k8sclient::MakeHttpApi(*config, {.user_agent = "berth-agent"});
    if (!api) return std::unexpected(api.error());
    auto node = AgentNode::Make(std::make_unique<CountedApi>(*std::move(api), std::string(crds::kBlocksPath), counts),
                                {.node = fmt::format("claimer-{:04}", index),
                                 .pool = kClaimsPool,
                                 .state_dir = options.state_dir,
                                 .run_dir = options.run_dir,
                                 .server = config->server,
                                 .watches_blocks = false});
    if (!node) return std::unexpected(node.error());
    agents.push_back(*std::move(node));
  }
  return agents;
}

double SecondsOf(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

// Starts all agents at the same moment. Returns after how many seconds each agent had a block, in ascending order;
// agents without a block are missing.
std::vector<double> StartTogether(const Agents& agents, const Progress& progress) {
  // The agents stand for other machines, so the API server's threads have priority over them.
  setpriority(PRIO_PROCESS, 0, kNicest);
  steady_clock::time_point begin;
  std::barrier start(static_cast<std::ptrdiff_t>(agents.size()) + 1,
                     [&begin]() noexcept { begin = steady_clock::now(); });
  std::mutex mutex;
  std::vector<double> seconds;  // guarded by mutex
  std::condition_variable all_have;
  std::vector<std::jthread> threads;
  for (const auto& node : agents) {
    threads.emplace_back([&](const std::stop_token& stop) {
      start.arrive_and_wait();
      node->agent().LoadAndClaim(stop);
      if (stop.stop_requested()) return;
      const std::scoped_lock lock(mutex);
      seconds.push_back(SecondsOf(steady_clock::now() - begin));
      if (seconds.size() == agents.size()) all_have.notify_one();
    });
  }
  start.arrive_and_wait();
  for (int second = 1; steady_clock::now() - begin < kLimit; ++second) {
    std::unique_lock lock(mutex);
    const auto has_all = [&] { return seconds.size() == agents.size(); };
    if (all_have.wait_until(lock, begin + std::chrono::seconds(second), has_all)) break;
    progress(fmt::format("{} of {} agents have a block after {} s", seconds.size(), agents.size(), second));
  }
  for (auto& thread : threads) thread.request_stop();
  threads.clear();
  return seconds;
}

// The outcomes of requests, by the API server's own counters.
class Requests {
 public:
  Requests(const ServerMetrics& before, const ServerMetrics& after) : before_(before), after_(after) {}

  [[nodiscard]] double Count(std::string_view verb, std::string_view resource, std::string_view codes) const {
    const std::string labels[] = {
        fmt::format("verb=\"{}\"", verb), fmt::format("resource=\"{}\"", resource), fmt::format("code=\"{}", codes)};
    const auto sum = [&](const ServerMetrics& metrics) {
      return metrics.Sum("apiserver_request_total", {labels[0], labels[1], labels[2]});
    };
    return sum(after_) - sum(before_);
  }

  [[nodiscard]] std::string Table() const {
    std::string text = fmt::format("  {:<18}{:>8}{:>8}{:>8}{:>8}\n", "requests", "2xx", "409", "429", "5xx");
    const auto line = [&](const char* verb, const char* resource) {
      fmt::format_to(std::back_inserter(text),
                     "  {:<18}{:>8.0f}{:>8.0f}{:>8.0f}{:>8.0f}\n",
                     fmt::format("{} {}", verb, resource),
                     Count(verb, resource, "2"),
                     Count(verb, resource, "409"),
                     Count(verb, resource, "429"),
                     Count(verb, resource, "5"));
    };
    for (const char* resource : {"ippools", "namespaces", "nodes", "ipblocks"}) line("LIST", resource);
    line("POST", "ipblocks");
    return text;
  }

 private:
  const ServerMetrics& before_;
  const ServerMetrics& after_;
};

// Returns after how many seconds `hundredths` hundredths of the agents (at least one agent) had a block; the time limit
// if fewer agents got a block.
double SecondsUntil(const std::vector<double>& seconds, std::size_t agents, std::size_t hundredths) {
  const std::size_t count = std::max<std::size_t>(1, (agents * hundredths + 99) / 100);
  return count <= seconds.size() ? seconds[count - 1] : SecondsOf(kLimit);
}

}  // namespace

Expected<std::string> RunClaims(const ClaimsOptions& options, const Progress& progress) {
  const auto cluster = BenchCluster::Open(options.kubeconfig);
  if (!cluster) return std::unexpected(cluster.error());
  const auto pool = cluster->MakePool({.name = kClaimsPool, .subnet = "10.112.0.0/12"});
  if (!pool) return std::unexpected(pool.error());
  ClaimCounts counts;
  const auto agents = MakeAgents(options, counts);
  if (!agents) return std::unexpected(agents.error());
  // In a cluster that is in use, the API server has the blocks in its cache. It begins to fill the cache with the first
  // LIST.
  if (const auto none = cluster->CountBlocks(kClaimsPool); !none) return std::unexpected(none.error());
  const auto before = ServerMetrics::Read(cluster->api());
  if (!before) return std::unexpected(before.error());
  const auto server_cpu_before = CpuOf(options.api_server);
  const auto own_cpu_before = OwnCpu();

  const std::vector<double> seconds = StartTogether(*agents, progress);

  const double own_cpu = SecondsOf(OwnCpu() - own_cpu_before);
  const double server_cpu = SecondsOf(CpuOf(options.api_server) - server_cpu_before);
  const auto after = ServerMetrics::Read(cluster->api());
  if (!after) return std::unexpected(after.error());
  const auto blocks = cluster->CountBlocks(kClaimsPool);
  if (!blocks) return std::unexpected(blocks.error());

  const Requests requests(*before, *after);
  const ClaimTotals totals = counts.Totals();
  // If the API server answers 429, the client repeats the request by itself. Such a request was sent, so it counts too.
  const double sent = static_cast<double>(totals.posts()) + requests.Count("POST", "ipblocks", "429");
  const double per_block = sent / static_cast<double>(std::max<std::size_t>(blocks->blocks, 1));
  const double all = SecondsUntil(seconds, agents->size(), 100);
  return fmt::format(
      "{} agents started at once on {}: {} blocks\n\n"
      "  a block after       {:.1f} s (first), {:.1f} s (half), {:.1f} s (99 of 100), {:.1f} s (all)\n"
      "  POSTs of a block    {} created, {} refused as the name was taken, {} failed\n"
      "  CPU seconds         {:.1f} API server, {:.1f} all agents\n\n{}\n"
      "Goals\n  {:<8} all have a block within 60 s: {} of {} after {:.1f} s\n"
      "  {:<8} at most 1.5 POSTs per block: {:.2f}\n",
      agents->size(),
      pool->subnet.ToString(),
      blocks->blocks,
      SecondsUntil(seconds, agents->size(), 0),
      SecondsUntil(seconds, agents->size(), 50),
      SecondsUntil(seconds, agents->size(), 99),
      all,
      totals.created,
      totals.taken,
      totals.failed,
      server_cpu,
      own_cpu,
      requests.Table(),
      seconds.size() == agents->size() && all <= 60 ? "reached" : "MISSED",
      seconds.size(),
      agents->size(),
      all,
      per_block <= 1.5 ? "reached" : "MISSED",
      per_block);
}

}  // namespace berth::bench
