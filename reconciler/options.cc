// SPDX-License-Identifier: Apache-2.0
// The flags, as --help shows them.
#include "reconciler/options.h"

#include <map>
#include <string>

#include <CLI/CLI.hpp>

namespace berth::reconciler {

namespace {

constexpr int kUsageExit = 2;
std::map<std::string, Reclaim> ReclaimTexts() {
  return {{"off", Reclaim::kOff}, {"report", Reclaim::kReport}, {"on", Reclaim::kOn}};
}

std::map<std::string, bool> SwitchTexts() { return {{"off", false}, {"on", true}}; }

}  // namespace

std::variant<Options, http::ProbeOptions, Exit> ParseOptions(int argc, const char* const* argv,
                                                             const std::string& version) {
  Options options;
  std::string log_format = "text";
  CLI::App app(
      "Accepts IPPools, keeps their counts and what is withheld from them, enters reservations into blocks, frees the "
      "addresses of pods that are gone, and lets deleted pools and blocks go once they are empty. Several may run: one "
      "leads.",
      "berth-controller");
  app.set_version_flag("--version", "berth-controller " + version);
  app.add_option("--kubeconfig", options.kubeconfig, "How to reach the API server. Default: as a pod of the cluster");
  app.add_option("--lease-namespace", options.lease_namespace, "Namespace of the Lease")->capture_default_str();
  app.add_option("--lease-name", options.lease_name, "Name of the Lease that the leader holds")->capture_default_str();
  app.add_flag("!--no-leader-election",
               options.elects_leader,
               "Lead at once, without a Lease. For tests: two that lead do no harm, but twice the work");
  app.add_option(
         "--reclaim",
         options.reclaim,
         "What to do with addresses of pods that are gone without having given them back: on frees them, report "
         "only logs which, off does neither")
      ->type_name("WORD")  // and a description: those that CLI11 has name the numbers behind the words
      ->transform(CLI::CheckedTransformer(ReclaimTexts()).description("in {off,report,on}"))
      ->default_str("on");
  app.add_option("--allocations", options.keeps_allocations, "Whether to keep an IPAllocation for each pod's addresses")
      ->type_name("WORD")
      ->transform(CLI::CheckedTransformer(SwitchTexts()).description("in {off,on}"))
      ->default_str("on");
  app.add_option(
         "--count",
         options.counts,
         "Whether Nodes show how many addresses they have for pods, as ipam.berth.dev/<resource> in capacity and "
         "allocatable. off takes these numbers away")
      ->type_name("WORD")
      ->transform(CLI::CheckedTransformer(SwitchTexts()).description("in {off,on}"))
      ->default_str("on");
  app.add_option("--node-patches-per-second",
                 options.patches_per_second,
                 "How many writes of Nodes a second at most; bursts of 100 are allowed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--health-address",
                 options.health_address,
                 "host:port for /healthz, /readyz and /metrics, such as 0.0.0.0:9746; with host:9746-9749 the first free port of "
                 "that range. Default: none");
  app.add_option(
      "--probe-socket", options.probe_socket, "UNIX socket with the same, for the subcommand. Default: none");
  http::ProbeOptions probe;
  auto* const probes = app.add_subcommand("probe", "Asks a controller how it is; exit status 0: well");
  probes->add_option("--socket", probe.socket, "The controller's --probe-socket")->required();
  probes->add_flag("--ready", probe.asks_ready, "Whether it could lead, or does; else whether it runs");
  app.add_option("--log-level", options.log_level, "What to log")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", log_format, "How to log, on stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Exit{app.exit(error) == 0 ? 0 : kUsageExit};
  }
  if (probes->parsed()) return probe;
  options.logs_json = log_format == "json";
  return options;
}

}  // namespace berth::reconciler
