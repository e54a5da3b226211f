// SPDX-License-Identifier: Apache-2.0
// The command line of berth-agent. Without a subcommand the program is the node's agent. The subcommands `install` and
// `probe` exist because the image of the agent's pod has no shell.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "agent/agent_run.h"
#include "base/version.h"
#include "http/http_probe.h"
#include "node/folder.h"
#include "node/host_install.h"
#include "node/node_mode.h"

namespace berth::agent {
namespace {

struct InstallOptions {
  std::string program;  // empty: `berth` in the folder of this program
  std::string cni_bin_dir;
  std::string conflist_from;
  std::string conflist_to;
  std::string state;
  bool is_direct = false;
  bool stays = false;
};

void AddRunOptions(CLI::App& app, RunOptions& options, std::string& log_level) {
  app.add_option("--kubeconfig", options.kubeconfig, "Credentials for the API server; default: those of the pod")
      ->check(CLI::ExistingFile);
  app.add_option(
         "--node", options.agent.node, "Name of this node; default: NAME of the kubeconfig's user system:node:NAME")
      ->envname("NODE_NAME");
  app.add_option("--socket",
                 options.socket,
                 "UNIX socket for the plugin berth. The folder of the socket also holds files that a reboot may delete")
      ->capture_default_str();
  app.add_option("--probe-socket",
                 options.probe_socket,
                 "UNIX socket of this process alone, for the subcommand \"probe\"; default: none");
  app.add_option(
         "--state", options.agent.state_dir, "Folder for files that must survive a reboot: mode, journal, queued DELs")
      ->capture_default_str();
  app.add_option(
         "--netns-dir",
         options.agent.netns_dir,
         "Folder in which the runtime keeps the network namespaces of containers. While a container's namespace "
         "is in this folder, no other pod gets the container's address")
      ->capture_default_str();
  app.add_flag("--retire",
               options.retires,
               "Write everything that is pending, leave this node to berth-direct, and end; see docs/operations.md");
  app.add_option(
         "--standby",
         options.agent.standby,
         "How many addresses of each block to keep on standby: a pod may get such an address a moment before the "
         "agent writes the entry. 0: every ADD waits until its entry is written")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag(
      "--read-pods",
      options.agent.reads_pods,
      "If the runtime passes no annotations of a pod, read them from the API server; the agent then needs the right "
      "to get pods");
  app.add_option(
      "--http-address",
      options.http_address,
      "Address and port for /healthz, /readyz and /metrics, such as 127.0.0.1:9745; by default these paths are served "
      "only at --socket");
  app.add_option("--log-level", log_level, "error, warn, info or debug")
      ->check(CLI::IsMember({"error", "warn", "info", "debug"}))
      ->capture_default_str();
}

void AddInstallOptions(CLI::App& app, InstallOptions& options) {
  app.add_option("--program", options.program, "The plugin to install; default: berth in the folder of this program");
  app.add_option("--cni-bin-dir", options.cni_bin_dir, "The host's folder of CNI plugins")->required();
  auto* const from = app.add_option("--conflist-from", options.conflist_from, "A network configuration to install");
  auto* const to = app.add_option(
      "--conflist-to", options.conflist_to, "The host's file to which the network configuration is written");
  from->needs(to);
  to->needs(from);
  auto* const state = app.add_option(
      "--state",
      options.state,
      "The host's state folder. The file \"mode\" in it says whether an agent or berth-direct serves the node. "
      "Without --direct, the installation fails if the mode is direct");
  app.add_flag("--direct",
               options.is_direct,
               "With berth-direct as --program: set the node's mode to direct, or fail if the node had an agent")
      ->needs(state);
  app.add_flag("--stay", options.stays, "Wait for SIGTERM after the installation, so that the container keeps running");
}

void AddProbeOptions(CLI::App& app, http::ProbeOptions& options) {
  app.add_option("--socket", options.socket, "Socket of the agent: the value of the agent's --probe-socket or --socket")
      ->required();
  app.add_flag("--ready", options.asks_ready, "Ask whether the agent has loaded its blocks");
}

// Checks the node's mode before the program is installed; with `is_direct`, sets the mode of a new node. In the other
// mode, the program would answer all calls of the node with errors.
Expected<void> TakeMode(const node::Folder& state, bool is_direct) {
  if (!is_direct) return node::RequireMode(state, node::NodeMode::kAgent);
  const auto begun = node::BeginAsDirect(state);
  if (!begun) return std::unexpected(begun.error());
  spdlog::info("mode is direct folder={} is_new={}", state.path(), *begun);
  return {};
}

int Install(const InstallOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&signals, number);
  if (options.stays) pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto take_mode = [&options]() -> Expected<void> {
    if (options.state.empty()) return {};
    const auto state = node::Folder::Open(options.state);
    return state ? TakeMode(*state, options.is_direct) : std::unexpected(state.error());
  };
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto program =
      node::InstallProgram(options.program.empty() ? (own.parent_path() / "berth").string() : options.program,
                           options.cni_bin_dir,
                           take_mode);
  if (!program) return Complain(program.error());
  spdlog::info("program folder={} is_new={}", options.cni_bin_dir, *program);
  if (!options.conflist_to.empty()) {
    const auto conflist = node::InstallConflist(options.conflist_from, options.conflist_to);
    if (!conflist) return Complain(conflist.error());
    spdlog::info("network configuration file={} is_new={}", options.conflist_to, *conflist);
  }
  int received = 0;
  if (options.stays) sigwait(&signals, &received);
  return EXIT_SUCCESS;
}

int PrintProbe(const http::ProbeOptions& options) {
  const auto answer = http::Probe(options);
  std::puts(answer ? answer->c_str() : answer.error().message.c_str());
  return answer ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int AgentMain(int argc, const char* const* argv) {
  RunOptions run;
  run.version = kVersion;
  InstallOptions install;
  http::ProbeOptions probe;
  std::string log_level = "info";
  CLI::App app{
      "Gives addresses to the pods of one node: answers the plugin berth from memory, and records in the API server "
      "which pod has which address.",
      "berth-agent"};
  app.set_version_flag("--version", std::string("berth-agent ") + kVersionAndCommit);
  app.require_subcommand(0, 1);
  AddRunOptions(app, run, log_level);
  auto* const installs = app.add_subcommand("install", "Put the plugin berth on the host, and end");
  AddInstallOptions(*installs, install);
  auto* const probes = app.add_subcommand("probe", "Ask an agent on this host whether it runs; exit code 0: yes");
  AddProbeOptions(*probes, probe);
  app.footer(
      "Examples:\n"
      "  berth-agent --kubeconfig ~/.kube/config --node worker-1 --socket /tmp/berth/agent.sock --state "
      "/tmp/berth/state\n"
      "  berth-agent probe --ready --socket /run/berth/agent.sock\n"
      "  berth-agent install --cni-bin-dir /opt/cni/bin");
  // CLI11 takes the arguments in reverse order.
  std::vector<std::string> arguments(std::reverse_iterator(argv + argc), std::reverse_iterator(argv + 1));
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& refused) {
    return app.exit(refused);
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("berth-agent"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  spdlog::set_level(spdlog::level::from_str(log_level));
  if (installs->parsed()) return Install(install);
  if (probes->parsed()) return PrintProbe(probe);
  return RunAgent(std::move(run));
}

}  // namespace berth::agent
