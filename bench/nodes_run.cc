// SPDX-License-Identifier: Apache-2.0
// Agents and bare clients, in turn.
#include "bench/nodes_run.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <set>
#include <sys/prctl.h>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "bench/agent_node.h"
#include "bench/bench_cluster.h"
#include "bench/callers.h"
#include "bench/process_figures.h"
#include "bench/raw_block.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"

namespace berth::bench {

namespace {

constexpr const char* kNodesPool = "nodes";
constexpr std::chrono::seconds kReadyMax{300};

// Enlarges the process's table of waiting threads. Linux 6.16 and later give each process a table of its own, with a
// few rows for each processor: if 10,000 threads wait, each wake-up walks past a thousand, while on a node only 30
// threads wait. Older kernels refuse the call, and have one large table. (linux/prctl.h of Debian 12 is older than both
// names.)
void WidenFutexTable() {
  constexpr int kFutexHash = 78;          // PR_FUTEX_HASH
  constexpr unsigned long kSetSlots = 1;  // PR_FUTEX_HASH_SET_SLOTS
  constexpr unsigned long kSlots = 16384;
  static_cast<void>(prctl(kFutexHash, kSetSlots, kSlots, 0UL, 0UL));
}

// A way to write addresses that the run compares.
struct Way {
  const char* name;
  bool is_bare;
  int callers;  // on each node
};
constexpr Way kWays[] = {
    {"bare PATCH, 1 at a time", true, 1}, {"berth, 1 at a time", false, 1}, {"berth, 10 at a time", false, 10}};

struct Rounds {
  std::vector<OpFigures> add;
  std::vector<OpFigures> del;
  double adds = 0;
  double conflicts = 0;
  std::size_t duplicates = 0;
  std::size_t unrecorded = 0;  // ADDs that succeeded, and whose address has no entry
};

class NodesRun {
 public:
  NodesRun(const NodesOptions& options, const Meters& meters, const Progress& progress, BenchCluster cluster)
      : options_(options), meters_(meters), progress_(progress), cluster_(std::move(cluster)), ids_(options.seed) {}

  Expected<void> SetUp() {
    if (auto made = MakeBareClients(); !made) return made;
    if (auto made = MakeAgents(); !made) return made;
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& node : nodes_) node->agent().Start();
    progress_(fmt::format("{} agents start", options_.nodes));
    for (const auto& node : nodes_) {
      while (!node->agent().IsReady()) {
        if (std::chrono::steady_clock::now() - begin > kReadyMax) {
          return Fail(ErrorCode::kTimeout, "agents are not ready after five minutes");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    ready_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {};
  }

  Expected<void> Measure() {
    for (int round = 0; round <= options_.rounds; ++round) {
      for (std::size_t turn = 0; turn < std::size(kWays); ++turn) {
        const std::size_t way = (turn + static_cast<std::size_t>(round)) % std::size(kWays);
        progress_(fmt::format("{}, round {} of {}", kWays[way].name, round, options_.rounds));
        // Round 0 does not count, because agents claim blocks in it.
        if (auto done = RunWay(kWays[way], round == 0 ? nullptr : &rounds_[way]); !done) return done;
      }
    }
    return {};
  }

  [[nodiscard]] std::string Report() const;

  // Stops all agents at once, because each waits for its threads.
  void StopAgents() {
    std::vector<std::jthread> stopping;
    for (auto& node : nodes_) stopping.emplace_back([&node] { node.reset(); });
  }

 private:
  Expected<void> MakeBareClients() {
    const auto pool = cluster_.MakePool({.name = "nodes-bare", .subnet = "10.80.0.0/12", .is_claimed_ahead = false});
    if (!pool) return std::unexpected(pool.error());
    progress_(fmt::format("{} blocks for bare clients", options_.nodes));
    for (int index = 0; index < options_.nodes; ++index) {
      auto client = BenchCluster::Open(options_.agent_kubeconfig);
      if (!client) return std::unexpected(client.error());
      clients_.push_back(std::make_unique<BenchCluster>(*std::move(client)));
      const auto cidr = ipam::Prefix::Around(
          ipam::Address::FromBits(ipam::Family::kIPv4, pool->subnet.First().bits() + ipam::Uint128{64} * index), 26);
      auto raw = RawBlock::Create(clients_.back()->api(), *pool, cidr, fmt::format("bare-{:04}", index));
      if (!raw) return std::unexpected(raw.error());
      bare_.push_back(*std::move(raw));
    }
    return {};
  }

  Expected<void> MakeAgents() {
    const auto pool = cluster_.MakePool({.name = kNodesPool, .subnet = "10.64.0.0/12"});
    if (!pool) return std::unexpected(pool.error());
    auto config = k8sclient::LoadKubeconfig({options_.agent_kubeconfig}, /*context=*/"", k8sclient::ReadWholeFile);
    if (!config) return std::unexpected(config.error());
    for (int index = 0; index < options_.nodes; ++index) {
      auto api = k8sclient::MakeHttpApi(*config, {.user_agent = "berth-agent"});
      if (!api) return std::unexpected(api.error());
      auto node = AgentNode::Make(*std::move(api),
                                  {.node = fmt::format("node-{:04}", index),
                                   .pool = kNodesPool,
                                   .state_dir = options_.state_dir,
                                   .run_dir = options_.run_dir,
                                   .server = config->server});
      if (!node) return std::unexpected(node.error());
      nodes_.push_back(*std::move(node));
    }
    return {};
  }

  std::vector<Share> Shares(bool is_bare) {
    std::vector<Share> shares;
    const int each = options_.addresses / options_.nodes;
    for (int index = 0; index < options_.nodes; ++index) {
      const auto at = static_cast<std::size_t>(index);
      Contender* const contender = is_bare ? static_cast<Contender*>(bare_[at].get()) : nodes_[at].get();
      shares.push_back({.contender = contender, .container_ids = {}});
      for (int count = 0; count < each; ++count) shares.back().container_ids.push_back(ids_.Next());
    }
    return shares;
  }

  Expected<OpSamples> Together(const Way& way, Operation operation, const std::vector<Share>& shares) {
    return Metered(meters_, /*user_agent=*/"", &OwnCpu, [&] {
      const auto begin = std::chrono::steady_clock::now();
      OpSamples samples = callers_.Run(operation, shares, way.callers);
      // Calls are answered before they are written, so the time ends when all calls are written.
      for (const auto& node : nodes_) node->AwaitWritten();
      samples.wall = std::chrono::steady_clock::now() - begin;
      return samples;
    });
  }

  double Conflicts() {
    double sum = 0;
    for (const auto& node : nodes_) sum += node->Counter("berth_agent_conflicts_total");
    return sum;
  }

  Expected<void> RunWay(const Way& way, Rounds* rounds) {
    const std::vector<Share> shares = Shares(way.is_bare);
    const double conflicts_before = Conflicts();
    const auto added = Together(way, Operation::kAdd, shares);
    if (!added) return std::unexpected(added.error());
    if (rounds != nullptr) {
      rounds->add.push_back(Summarise(*added));
      rounds->adds += static_cast<double>(added->took.size());
      rounds->conflicts += Conflicts() - conflicts_before;
    }
    if (!way.is_bare) {
      if (auto checked = CheckAddresses(added->took.size(), rounds); !checked) return checked;
    }
    const auto deleted = Together(way, Operation::kDel, shares);
    if (!deleted) return std::unexpected(deleted.error());
    if (rounds != nullptr) rounds->del.push_back(Summarise(*deleted));
    return {};
  }

  Expected<void> CheckAddresses(std::size_t succeeded, Rounds* rounds) {
    std::set<std::string> different;
    std::size_t answered = 0;
    for (const auto& node : nodes_) {
      for (std::string& address : node->TakeAddresses()) {
        ++answered;
        different.insert(std::move(address));
      }
    }
    const auto totals = cluster_.CountBlocks(kNodesPool);
    if (!totals) return std::unexpected(totals.error());
    if (rounds == nullptr) return {};
    rounds->duplicates += answered - different.size();
    rounds->unrecorded += succeeded - std::min(succeeded, totals->used);
    return {};
  }

  const NodesOptions& options_;
  const Meters& meters_;
  const Progress& progress_;
  BenchCluster cluster_;
  ContainerIds ids_;
  std::vector<std::unique_ptr<BenchCluster>> clients_;
  std::vector<std::unique_ptr<RawBlock>> bare_;
  std::vector<std::unique_ptr<AgentNode>> nodes_;
  double ready_seconds_ = 0;
  Callers callers_;
  Rounds rounds_[std::size(kWays)];
};

std::string Goal(bool reached, const std::string& text) {
  return fmt::format("  {:<8} {}\n", reached ? "reached" : "MISSED", text);
}

std::string NodesRun::Report() const {
  std::string text = fmt::format("{} nodes, {} addresses, medians of {} rounds; all agents ready after {:.1f} s\n\n",
                                 options_.nodes,
                                 options_.addresses,
                                 options_.rounds,
                                 ready_seconds_);
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "  {:<25}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}{:>8}\n",
                 "",
                 "ADD/s",
                 "p50 ms",
                 "p99 ms",
                 "API ms",
                 "node ms",
                 "etcd kB",
                 "conflicts",
                 "DEL/s");
  std::size_t failed = 0;
  std::string first_error;
  std::vector<OpFigures> adds;
  for (std::size_t way = 0; way < std::size(kWays); ++way) {
    const Rounds& rounds = rounds_[way];
    const OpFigures add = MedianOf(rounds.add);
    const OpFigures del = MedianOf(rounds.del);
    fmt::format_to(out,
                   "  {:<25}{:>8.0f}{:>9.1f}{:>9.1f}{:>9.2f}{:>9.2f}{:>9.1f}{:>9.2f}%{:>8.0f}\n",
                   kWays[way].name,
                   add.per_second,
                   add.p50_ms,
                   add.p99_ms,
                   add.server_cpu_ms,
                   add.node_cpu_ms,
                   add.etcd_bytes / 1000,
                   100 * rounds.conflicts / std::max(1.0, rounds.adds),
                   del.per_second);
    failed += add.failed + del.failed;
    if (first_error.empty()) first_error = add.failed > 0 ? add.first_error : del.first_error;
    adds.push_back(add);
  }
  const auto sum = [this](auto Rounds::* field) {
    auto total = rounds_[0].*field;
    for (std::size_t way = 1; way < std::size(kWays); ++way) total += rounds_[way].*field;
    return total;
  };
  text += "\nGoals\n";
  text += Goal(failed == 0, fmt::format("every ADD and DEL succeeds: {} failed {}", failed, first_error));
  text += Goal(sum(&Rounds::duplicates) == 0 && sum(&Rounds::unrecorded) == 0,
               fmt::format("no address twice, all recorded: {} twice, {} not recorded",
                           sum(&Rounds::duplicates),
                           sum(&Rounds::unrecorded)));
  const double conflicts = 100 * sum(&Rounds::conflicts) / std::max(1.0, rounds_[1].adds + rounds_[2].adds);
  text += Goal(conflicts < 1, fmt::format("conflicts under 1 %: {:.2f} %", conflicts));
  const double one = adds[1].per_second / adds[0].per_second;
  const double ten = adds[2].per_second / adds[0].per_second;
  text += Goal(one >= 0.85, fmt::format("one ADD at a time: at least 0.85 x the bare rate: {:.2f} x", one));
  text += Goal(ten >= 4, fmt::format("ten at a time: at least 4 x the bare rate: {:.2f} x", ten));
  return text;
}

}  // namespace

Expected<std::string> RunNodes(const NodesOptions& options, const Meters& meters, const Progress& progress) {
  WidenFutexTable();
  auto cluster = BenchCluster::Open(options.kubeconfig);
  if (!cluster) return std::unexpected(cluster.error());
  NodesRun run(options, meters, progress, *std::move(cluster));
  if (auto ready = run.SetUp(); !ready) return std::unexpected(ready.error());
  if (auto measured = run.Measure(); !measured) return std::unexpected(measured.error());
  std::string report = run.Report();
  run.StopAgents();
  return report;
}

}  // namespace berth::bench
