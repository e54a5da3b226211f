// SPDX-License-Identifier: Apache-2.0
// Defines the flags, as --help shows them.
#include "reconciler/options.h"

#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "reconciler/pod_requests.h"

namespace berth::reconciler {

namespace {

constexpr int kUsageExit = 2;
std::map<std::string, Reclaim> ReclaimTexts() {
  return {{"off", Reclaim::kOff}, {"report", Reclaim::kReport}, {"on", Reclaim::kOn}};
}

std::map<std::string, bool> SwitchTexts() { return {{"off", false}, {"on", true}}; }

// The flags of address counts.
void AddCounting(CLI::App& app, Options& options) {
  app.add_option(
         "--count",
         options.settings.counts,
         "Whether Nodes show how many addresses they have for pods, as ipam.berth.dev/<resource> in capacity and "
         "allocatable. off removes these numbers")
      ->type_name("WORD")
      ->transform(CLI::CheckedTransformer(SwitchTexts()).description("in {off,on}"))
      ->default_str("on");
  app.add_option("--node-patches-per-second",
                 options.settings.patches_per_second,
                 "How many writes to Nodes the controller may make per second; bursts of 100 are allowed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

// The flags of the scheduler extender.
void AddExtender(CLI::App& app, Options& options) {
  auto* const port =
      app.add_option(
             "--extender-port",
             options.extender_port,
             "HTTPS port of the scheduler extender, at which kube-scheduler asks which nodes have an address left; "
             "0: no extender")
          ->check(CLI::Range(0, 65535))
          ->capture_default_str();
  const auto add = [&](const char* name, std::string& value, const char* help) {
    return app.add_option(name, value, help)->needs(port);
  };
  auto* const cert = add("--extender-cert",
                         options.extender_cert,
                         "File with the certificate of --extender-port, PEM; "
                         "the controller reads the file again when it changes");
  auto* const key = add("--extender-key", options.extender_key, "File with the private key of that certificate, PEM");
  add("--extender-client-ca",
      options.extender_client_ca,
      "File with CA certificates, PEM. The extender answers only callers whose certificate one of these CAs issued. "
      "Default: the extender answers everybody");
  auto* const address = add("--extender-address",
                            options.extender_address,
                            "This controller's IP address, which the leader writes to the EndpointSlice of the Service "
                            "berth-extender");
  add("--extender-resources",
      options.extender_resources,
      "Resources, separated by commas. If a pod neither requests addresses nor has the annotation "
      "ipam.berth.dev/resources, the extender looks for one address of each of these resources")
      ->capture_default_str();
  port->needs(cert)->needs(key)->needs(address);
}

}  // namespace

std::variant<Options, http::ProbeOptions, Exit> ParseOptions(int argc, const char* const* argv,
                                                             const std::string& version) {
  Options options;
  std::string log_format = "text";
  CLI::App app(
      "Accepts IPPools and writes their status, withholds reserved addresses, frees the addresses of pods that are "
      "gone, and removes deleted pools and blocks once they are empty. Several controllers may run: one leads, the "
      "others wait.",
      "berth-controller");
  app.set_version_flag("--version", "berth-controller " + version);
  app.add_option("--kubeconfig", options.kubeconfig, "Credentials for the API server; default: those of the pod");
  const auto is_name = [](const std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); };
  app.add_option("--lease-namespace", options.lease_namespace, "Namespace of the Lease")
      ->check(is_name)
      ->capture_default_str();
  app.add_option("--lease-name", options.lease_name, "Name of the Lease that the leader holds")
      ->check(is_name)
      ->capture_default_str();
  app.add_flag("!--no-leader-election",
               options.elects_leader,
               "Lead at once, without a Lease. For tests: two leaders do no harm, but do all work twice");
  app.add_option(
         "--reclaim",
         options.settings.reclaim,
         "What to do with orphans (addresses of pods that are gone and whose DEL never came). on: free them; report: "
         "only log them; off: ignore them")
      ->type_name("WORD")  // with a description of its own, because CLI11's would show the numbers of the enum
      ->transform(CLI::CheckedTransformer(ReclaimTexts()).description("in {off,report,on}"))
      ->default_str("on");
  app.add_option("--allocations",
                 options.settings.keeps_allocations,
                 "Whether to keep an IPAllocation for each attachment of a pod")
      ->type_name("WORD")
      ->transform(CLI::CheckedTransformer(SwitchTexts()).description("in {off,on}"))
      ->default_str("on");
  AddCounting(app, options);
  app.add_option(
      "--health-address",
      options.health_address,
      "host:port for /healthz, /readyz and /metrics, such as 0.0.0.0:9746. From a range such as 0.0.0.0:9746-9749 the "
      "controller takes the first free port. Default: none");
  app.add_option("--probe-socket", options.probe_socket, "UNIX socket for the subcommand probe. Default: none");
  AddExtender(app, options);
  http::ProbeOptions probe;
  auto* const probes = app.add_subcommand("probe", "Ask a controller on this host whether it runs; exit code 0: yes");
  probes->add_option("--socket", probe.socket, "The controller's --probe-socket")->required();
  probes->add_flag("--ready", probe.asks_ready, "Ask whether the controller leads or could lead");
  app.add_option("--log-level", options.log_level, "Least important level to log")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", log_format, "Format of the log, which goes to stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.footer(
      "Examples:\n"
      "  berth-controller --kubeconfig ~/.kube/config --reclaim report --probe-socket /tmp/berth-controller.sock\n"
      "  berth-controller probe --ready --socket /tmp/berth-controller.sock");
  try {
    app.parse(argc, argv);
    if (options.extender_port != 0 && !options.settings.counts)
      throw CLI::ValidationError("--extender-port", "needs --count=on");
  } catch (const CLI::ParseError& error) {
    return Exit{app.exit(error) == 0 ? 0 : kUsageExit};
  }
  if (probes->parsed()) return probe;
  options.logs_json = log_format == "json";
  if (options.extender_port != 0) options.settings.unrequested = ParseResources(options.extender_resources);
  return options;
}

}  // namespace berth::reconciler
