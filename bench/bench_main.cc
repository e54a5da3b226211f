// SPDX-License-Identifier: Apache-2.0
// berth-bench: measures what an address costs with berth, with host-local, and with a single PATCH. bench/run.sh makes
// a cluster for it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include "bench/agent_process.h"
#include "bench/audit_log.h"
#include "bench/bench_cluster.h"
#include "bench/claims_run.h"
#include "bench/etcd_metrics.h"
#include "bench/nodes_run.h"
#include "bench/plugin_contender.h"
#include "bench/raw_block.h"
#include "bench/report.h"
#include "bench/rounds.h"

namespace berth::bench {
namespace {

constexpr const char* kAbout =
    "Measures ADD and DEL of IPAM plugins, called as an interface plugin calls them, on a running cluster.\n"
    "bench/run.sh starts one, calls this, and takes the cluster down.";

struct Options {
  RoundsOptions rounds;
  int nodes = 0;
  int addresses = 20'000;
  int claims = 0;
  bool count_requests = false;
  std::string kubeconfig;
  std::string audit_log;
  std::string etcd_url;
  pid_t api_server_pid = 0;
  std::string cluster_dir;
  std::string direct;
  std::string direct_kubeconfig;
  std::string berth;
  std::string agent;
  std::string agent_kubeconfig;
  std::string raw_kubeconfig;
  std::string host_local;
  std::string svg;
  std::string state_dir;
  std::string run_dir;
};

void AddOptions(CLI::App& app, Options& options) {
  app.add_option("--callers",
                 options.rounds.callers,
                 "numbers of callers that call at the same time; each number is measured separately")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option(
         "--operations", options.rounds.operations, "number of ADDs, and of DELs, of each program in each round")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds.rounds, "number of rounds; figures are medians of the rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  auto* const nodes =
      app.add_option("--nodes",
                     options.nodes,
                     "measure this many agents in one process instead, which all add addresses at the same time")
          ->check(CLI::Range(1, 3000));
  app.add_option("--addresses", options.addresses, "with --nodes: number of addresses in each round")
      ->capture_default_str();
  auto* const claims =
      app.add_option(
             "--claims", options.claims, "measure this many agents instead, which start at once and each claim a block")
          ->check(CLI::Range(1, 6000));
  app.add_option("--kubeconfig", options.kubeconfig, "kubeconfig of an administrator, to create pools")
      ->envname("KUBECONFIG")
      ->required();
  auto* const audit_log =
      app.add_option("--audit-log", options.audit_log, "audit log of the API server, for --count-requests")
          ->envname("BERTH_AUDIT_LOG");
  app.add_flag("--count-requests",
               options.count_requests,
               "run one round instead, and count its requests in the audit log; prints no times")
      ->needs(audit_log)
      ->excludes(nodes)
      ->excludes(claims);
  app.add_option("--etcd", options.etcd_url, "URL of etcd, to count the bytes that it writes")
      ->envname("BERTH_ETCD_URL");
  app.add_option("--api-server-pid", options.api_server_pid, "process id of the API server, to measure its CPU time")
      ->envname("BERTH_APISERVER_PID");
  app.add_option("--cluster-dir", options.cluster_dir, "folder of the cluster, with etcd's certificates in pki/")
      ->envname("BERTH_E2E_DIR");
  app.add_option("--direct", options.direct, "path of berth-direct; without it berth-direct is not measured");
  app.add_option("--direct-kubeconfig", options.direct_kubeconfig, "kubeconfig of a node, for berth-direct");
  app.add_option("--berth", options.berth, "path of berth; without it berth is not measured");
  app.add_option("--agent", options.agent, "path of berth-agent, which the benchmark starts for berth");
  app.add_option("--agent-kubeconfig", options.agent_kubeconfig, "kubeconfig for berth-agent");
  app.add_option("--raw-kubeconfig", options.raw_kubeconfig, "kubeconfig of node bench-raw, for the raw PATCH");
  app.add_option("--host-local", options.host_local, "path of host-local; without it host-local is not measured");
  app.add_option("--state-dir", options.state_dir, "an empty folder for files on disk, such as one below /var/lib")
      ->required();
  app.add_option("--run-dir", options.run_dir, "an empty folder in memory, as /run is on a node")->required();
  app.add_option("--svg", options.svg, "write a chart to this file");
}

// Starts a berth-agent for the contender "berth". Nothing: there is no --agent.
Expected<std::optional<AgentProcess>> StartAgent(const Options& options) {
  if (options.agent.empty()) return std::nullopt;
  return AgentProcess::Start(options.agent,
                             {"--kubeconfig=" + options.agent_kubeconfig,
                              "--node=bench-agent",
                              "--socket=" + options.run_dir + "/agent.sock",
                              "--state=" + options.state_dir + "/agent"},
                             options.state_dir + "/agent.log");
}

// Makes pools and contenders for the programs that the options name, and for the raw PATCH, which `client` sends.
Expected<std::vector<std::unique_ptr<Contender>>> MakeContenders(const Options& options, const BenchCluster& cluster,
                                                                 const BenchCluster& client,
                                                                 const std::optional<AgentProcess>& agent) {
  std::vector<std::unique_ptr<Contender>> contenders;
  if (!options.berth.empty()) {
    const auto pool = cluster.MakePool({.name = "bench", .subnet = "10.55.64.0/18"});
    if (!pool) return std::unexpected(pool.error());
    contenders.push_back(std::make_unique<PluginContender>(PluginContenderOptions{
        .name = kAgentName,
        .user_agent = "berth-agent",
        .program = options.berth,
        .ipam_config =
            fmt::format(R"({{"type":"berth","pools":["bench"],"agentSocket":"{}/agent.sock","stateDir":"{}/agent"}})",
                        options.run_dir,
                        options.state_dir),
        .agent = agent ? &*agent : nullptr,
        .agent_socket = agent ? options.run_dir + "/agent.sock" : ""}));
  }
  if (!options.direct.empty()) {
    const auto pool = cluster.MakePool({.name = "bench-direct", .subnet = "10.55.0.0/18", .is_claimed_ahead = false});
    if (!pool) return std::unexpected(pool.error());
    // berth-direct gets a state folder of its own, like another machine, because a machine has one mode.
    const std::string state = options.state_dir + "/direct";
    std::filesystem::create_directories(state);
    std::ofstream(state + "/mode") << "direct\n";
    contenders.push_back(std::make_unique<PluginContender>(PluginContenderOptions{
        .name = kDirectName,
        .user_agent = "berth-direct",
        .program = options.direct,
        .ipam_config = fmt::format(R"({{"type":"berth","pools":["bench-direct"],"kubeconfig":"{}","stateDir":"{}",)"
                                   R"("agentSocket":"{}/direct/agent.sock"}})",
                                   options.direct_kubeconfig,
                                   state,
                                   options.run_dir)}));
  }
  if (!options.host_local.empty()) {
    contenders.push_back(std::make_unique<PluginContender>(PluginContenderOptions{
        .name = kHostLocalName,
        .user_agent = "",
        .program = options.host_local,
        .ipam_config = fmt::format(R"({{"type":"host-local","dataDir":"{}","ranges":[[{{"subnet":"10.56.0.0/18"}}]]}})",
                                   options.state_dir + "/host-local")}));
  }
  const auto pool = cluster.MakePool({.name = "bench-raw", .subnet = "10.57.0.0/18", .is_claimed_ahead = false});
  if (!pool) return std::unexpected(pool.error());
  auto raw = RawBlock::Create(client.api(), *pool, *ipam::Prefix::Parse("10.57.1.0/26"), "bench-raw");
  if (!raw) return std::unexpected(raw.error());
  contenders.push_back(*std::move(raw));
  return contenders;
}

std::string CountReport(const Options& options, const std::vector<CallersFigures>& all) {
  return fmt::format(
      "Requests to the API server per operation, by its audit log, in one round of {} ADDs and {} DELs each.\n\n{}{}",
      options.rounds.operations,
      options.rounds.operations,
      RequestTables(all),
      RequestGoals(all));
}

Expected<std::string> TimeReport(const Options& options, const std::vector<CallersFigures>& all) {
  if (!options.svg.empty()) {
    std::ofstream file(options.svg);
    file << SvgChart(all);
    file.close();
    if (!file) return Fail(ErrorCode::kIo, "cannot write " + options.svg);
  }
  return fmt::format("Medians of {} rounds of {} ADDs and {} DELs each.\n\n{}{}{}",
                     options.rounds.rounds,
                     options.rounds.operations,
                     options.rounds.operations,
                     Tables(all),
                     TerminalChart(all),
                     Goals(all));
}

void Say(const std::string& what) { static_cast<void>(std::fputs(("  … " + what + "\n").c_str(), stderr)); }

Expected<std::string> Plugins(const Options& options, const Meters& meters) {
  const auto cluster = BenchCluster::Open(options.kubeconfig);
  if (!cluster) return std::unexpected(cluster.error());
  const auto agent = StartAgent(options);
  if (!agent) return std::unexpected(agent.error());
  const auto client = BenchCluster::Open(options.raw_kubeconfig.empty() ? options.kubeconfig : options.raw_kubeconfig);
  if (!client) return std::unexpected(client.error());
  const auto contenders = MakeContenders(options, *cluster, *client, *agent);
  if (!contenders) return std::unexpected(contenders.error());
  RoundsOptions rounds = options.rounds;
  // Other work of the machine changes times, but hardly the number of requests, so one round is enough.
  if (options.count_requests) rounds.rounds = 1;
  const auto all = RunRounds(*contenders, rounds, meters, &Say);
  if (!all) return std::unexpected(all.error());
  return options.count_requests ? CountReport(options, *all) : TimeReport(options, *all);
}

Expected<std::string> Measure(const Options& options) {
  if (options.claims > 0) {
    return RunClaims({.agents = options.claims,
                      .kubeconfig = options.kubeconfig,
                      .agent_kubeconfig = options.agent_kubeconfig,
                      .state_dir = options.state_dir,
                      .run_dir = options.run_dir,
                      .api_server = options.api_server_pid},
                     &Say);
  }
  // Timed operations must not wait until the log is read, even if there is a log.
  const AuditLog audit(options.count_requests ? options.audit_log : "");
  const auto etcd = EtcdMetrics::Make(options.etcd_url, options.cluster_dir + "/pki");
  if (!etcd) return std::unexpected(etcd.error());
  const Meters meters{.audit = audit, .etcd = *etcd, .api_server = options.api_server_pid};
  if (options.nodes == 0) return Plugins(options, meters);
  return RunNodes({.nodes = options.nodes,
                   .addresses = options.addresses,
                   .rounds = options.rounds.rounds,
                   .seed = options.rounds.seed,
                   .kubeconfig = options.kubeconfig,
                   .agent_kubeconfig = options.agent_kubeconfig,
                   .state_dir = options.state_dir,
                   .run_dir = options.run_dir},
                  meters,
                  &Say);
}

// Raises the limit of open files, because each of thousands of agents has files and connections of its own.
void RaiseFileLimit() {
  rlimit limit{};
  constexpr rlim_t kFiles = 100'000;
  const rlimit wanted{.rlim_cur = kFiles, .rlim_max = kFiles};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

int Run(Options options) {
  options.rounds.seed = std::random_device()();
  RaiseFileLimit();
  spdlog::set_level(spdlog::level::err);  // for the agents in this process
  const auto report = Measure(options);
  if (!report) {
    const std::string text = "berth-bench: " + report.error().message +
                             (report.error().details.empty() ? "" : "\n  " + report.error().details) + "\n";
    static_cast<void>(std::fputs(text.c_str(), stderr));
    return EXIT_FAILURE;
  }
  const bool printed = std::fputs(("\n" + *report).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return printed ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): so the standard declares it
  CLI::App app{berth::bench::kAbout, "berth-bench"};
  app.footer("Examples:\n  bench/run.sh --callers 1 --operations 50\n  bench/run.sh --nodes 100 --addresses 2000");
  berth::bench::Options options;
  berth::bench::AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::Run(std::move(options));
}
