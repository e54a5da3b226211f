// SPDX-License-Identifier: Apache-2.0
// berth-bench: what an address costs with berth, with host-local, and at the least. bench/run.sh makes a cluster for
// it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <CLI/CLI.hpp>
#include <spdlog/fmt/fmt.h>

#include "bench/audit_log.h"
#include "bench/bench_cluster.h"
#include "bench/etcd_metrics.h"
#include "bench/plugin_contender.h"
#include "bench/raw_block.h"
#include "bench/report.h"
#include "bench/rounds.h"

namespace berth::bench {
namespace {

using ipam::Expected;

constexpr const char* kAbout =
    "Measures ADD and DEL of IPAM plugins, called as an interface plugin calls them, against a running cluster.\n"
    "bench/run.sh starts one, calls this, and takes the cluster down.";

struct Options {
  RoundsOptions rounds;
  std::string kubeconfig;
  std::string audit_log;
  std::string etcd_url;
  std::string cluster_dir;
  std::string direct;
  std::string direct_kubeconfig;
  std::string host_local;
  std::string svg;
  std::string state_dir;
};

void AddOptions(CLI::App& app, Options& options) {
  app.add_option("--callers", options.rounds.callers, "how many call at once, one number after the other")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--operations", options.rounds.operations, "ADDs, and DELs, of each contender in each round")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds.rounds, "rounds; figures are medians over them")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--kubeconfig", options.kubeconfig, "of an administrator, for the pools and the raw PATCH")
      ->envname("KUBECONFIG")
      ->required();
  app.add_option("--audit-log", options.audit_log, "of the API server, to count requests")->envname("BERTH_AUDIT_LOG");
  app.add_option("--etcd", options.etcd_url, "where etcd listens, to count bytes")->envname("BERTH_ETCD_URL");
  app.add_option("--cluster-dir", options.cluster_dir, "folder of the cluster, with etcd's certificates in pki/")
      ->envname("BERTH_E2E_DIR");
  app.add_option("--direct", options.direct, "path of berth-direct; left out: not measured");
  app.add_option("--direct-kubeconfig", options.direct_kubeconfig, "of a node, for berth-direct");
  app.add_option("--host-local", options.host_local, "path of host-local; left out: not measured");
  app.add_option("--state-dir", options.state_dir, "an empty folder for what the plugins keep on the node")->required();
  app.add_option("--svg", options.svg, "write a chart to this file");
}

Expected<std::vector<std::unique_ptr<Contender>>> MakeContenders(const Options& options, const BenchCluster& cluster) {
  std::vector<std::unique_ptr<Contender>> contenders;
  if (!options.direct.empty()) {
    const auto pool = cluster.MakePool("bench-direct", "10.55.0.0/18");
    if (!pool) return std::unexpected(pool.error());
    contenders.push_back(std::make_unique<PluginContender>(PluginContenderOptions{
        .name = kDirectName,
        .user_agent = "berth-direct",
        .program = options.direct,
        .ipam_config = fmt::format(R"({{"type":"berth","pools":["bench-direct"],"kubeconfig":"{}","stateDir":"{}"}})",
                                   options.direct_kubeconfig,
                                   options.state_dir + "/direct")}));
  }
  if (!options.host_local.empty()) {
    contenders.push_back(std::make_unique<PluginContender>(PluginContenderOptions{
        .name = kHostLocalName,
        .user_agent = "",
        .program = options.host_local,
        .ipam_config = fmt::format(R"({{"type":"host-local","dataDir":"{}","ranges":[[{{"subnet":"10.56.0.0/18"}}]]}})",
                                   options.state_dir + "/host-local")}));
  }
  const auto pool = cluster.MakePool("bench-raw", "10.57.0.0/18");
  if (!pool) return std::unexpected(pool.error());
  auto raw = RawBlock::Create(cluster.api(), *pool, *ipam::Prefix::Parse("10.57.1.0/26"), "bench-raw");
  if (!raw) return std::unexpected(raw.error());
  contenders.push_back(*std::move(raw));
  return contenders;
}

Expected<std::vector<CallersFigures>> Measure(const Options& options) {
  const auto cluster = BenchCluster::Open(options.kubeconfig);
  if (!cluster) return std::unexpected(cluster.error());
  const auto contenders = MakeContenders(options, *cluster);
  if (!contenders) return std::unexpected(contenders.error());
  const AuditLog audit(options.audit_log);
  const auto etcd = EtcdMetrics::Make(options.etcd_url, options.cluster_dir + "/pki");
  if (!etcd) return std::unexpected(etcd.error());
  return RunRounds(*contenders, options.rounds, {.audit = audit, .etcd = *etcd}, [](const std::string& what) {
    static_cast<void>(std::fputs(("  … " + what + "\n").c_str(), stderr));
  });
}

int Run(Options options) {
  options.rounds.seed = std::random_device()();
  const auto all = Measure(options);
  if (!all) {
    const std::string text = "berth-bench: " + all.error().message +
                             (all.error().details.empty() ? "" : "\n  " + all.error().details) + "\n";
    static_cast<void>(std::fputs(text.c_str(), stderr));
    return EXIT_FAILURE;
  }
  const std::string report = fmt::format("\nMedians of {} rounds of {} ADDs and {} DELs each.\n\n{}{}\n{}",
                                         options.rounds.rounds,
                                         options.rounds.operations,
                                         options.rounds.operations,
                                         Tables(*all),
                                         TerminalChart(*all),
                                         Goals(*all));
  const bool printed = std::fputs(report.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (options.svg.empty()) return printed ? EXIT_SUCCESS : EXIT_FAILURE;
  std::ofstream file(options.svg);
  file << SvgChart(*all);
  file.close();
  if (!file) static_cast<void>(std::fputs(("berth-bench: cannot write " + options.svg + "\n").c_str(), stderr));
  return printed && file ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  CLI::App app{berth::bench::kAbout};
  berth::bench::Options options;
  berth::bench::AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::Run(std::move(options));
}
