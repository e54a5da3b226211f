// SPDX-License-Identifier: Apache-2.0
// berth-agent: the program around Agent: options, credentials, sockets, signals.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "agent/http_server.h"
#include "cni/config.h"
#include "cni/forward.h"
#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"

namespace berth::agent {
namespace {

struct Options {
  std::string kubeconfig;
  std::string socket = "/run/berth/agent.sock";
  std::string http_address;
  std::string log_level = "info";
  AgentOptions agent;
};

constexpr std::chrono::seconds kDrainMax{20};

ipam::Expected<k8sclient::ClientConfig> LoadConfig(const std::string& kubeconfig) {
  if (kubeconfig.empty()) return k8sclient::InClusterConfig(k8sclient::ProcessEnvironment, k8sclient::ReadWholeFile);
  return k8sclient::LoadKubeconfig({kubeconfig}, /*context=*/"", k8sclient::ReadWholeFile);
}

HttpAnswer Answer(Agent& agent, const HttpRequest& request) {
  const auto text = [](int status, std::string body) {
    return HttpAnswer{.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
  };
  if (request.path == "/cni") {
    if (!request.is_local || request.method != "POST") return text(403, "POST to /cni over the UNIX socket\n");
    Reply reply = agent.Handle(request.body);
    HttpAnswer answer{.status = reply.ok ? 200 : 500,
                      .headers = std::string("Berth-Took: ") + (reply.took ? "1" : "0") + "\r\n",
                      .body = std::move(reply.body)};
    if (!answer.body.empty()) answer.body += '\n';
    answer.done = [hold = std::move(reply.hold), take_back = std::move(reply.take_back)](bool delivered) {
      if (!delivered && take_back) take_back();
    };
    return answer;
  }
  if (request.method != "GET") return text(404, "unknown; try GET /healthz, /readyz, /metrics, /debug/blocks\n");
  if (request.path == "/healthz") return text(200, "ok\n");
  if (request.path == "/readyz") return agent.IsReady() ? text(200, "ok\n") : text(503, "blocks are not loaded yet\n");
  if (request.path == "/metrics") return text(200, agent.MetricsText());
  // Names of pods and namespaces: for root on the node only.
  if (request.path == "/debug/blocks" && request.is_local) return {.body = agent.DebugBlocks()};
  return text(404, "unknown; try GET /healthz, /readyz, /metrics, and over the UNIX socket /debug/blocks\n");
}

// What must not wait behind ADDs that wait for the API server: DELs, which free what those need and are answered from
// the journal, and what asks whether this process and its node are well.
bool IsUrgent(const HttpRequest& request) {
  return request.path != "/cni" || cni::BeginsWithVerb(request.body, cni::Verb::kDel) ||
         cni::BeginsWithVerb(request.body, cni::Verb::kStatus);
}

// Callers, requests under way and watches need one each; 1,024, which is what a process often starts with, are fewer
// than may wait.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    spdlog::warn("raise the limit of open files err=\"{}\"", std::strerror(errno));
}

int Complain(const ipam::Error& error) {
  spdlog::error("{}{}{}", error.message, error.details.empty() ? "" : ": ", error.details);
  return EXIT_FAILURE;
}

int Run(Options options) {
  RaiseDescriptorLimit();
  auto config = LoadConfig(options.kubeconfig);
  if (!config) return Complain(config.error());
  options.agent.server = config->server;
  options.agent.loaded_mark = options.socket + std::string(cni::kLoadedMarkSuffix);
  if (options.agent.node.empty()) {
    // The node's own credentials name it.
    const auto user = k8sclient::UserName(*config, k8sclient::ReadWholeFile);
    constexpr std::string_view kNodeUser = "system:node:";
    if (user && user->starts_with(kNodeUser)) options.agent.node = user->substr(kNodeUser.size());
  }
  if (options.agent.node.empty()) {
    spdlog::error("--node is not given: name the node this agent runs on (in a pod: the field spec.nodeName)");
    return EXIT_FAILURE;
  }
  auto api = k8sclient::HttpApi::Make(*std::move(config), {.user_agent = "berth-agent"});
  if (!api) return Complain(api.error());

  // Signals are taken by sigwait below, in every thread's name.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const auto replaced = [] { kill(getpid(), SIGUSR1); };
  auto agent = Agent::Make(**api, k8sclient::RealClock(), options.agent, replaced);
  if (!agent) return Complain(agent.error());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options.socket).parent_path(), error);
  auto server = HttpServer::Make({.socket_path = options.socket, .tcp_address = options.http_address},
                                 {.answer = [&agent](const HttpRequest& request) { return Answer(**agent, request); },
                                  .overload =
                                      [] {
                                        Reply busy = Agent::Busy();
                                        return HttpAnswer{.status = 503, .body = std::move(busy.body)};
                                      },
                                  .is_urgent = IsUrgent});
  if (!server) return Complain(server.error());
  (*agent)->Start();
  spdlog::info("serving socket={} node={} http={}", options.socket, options.agent.node, options.http_address);
  int received = 0;
  sigwait(&signals, &received);
  const bool was_replaced = received == SIGUSR1;
  spdlog::info("ending reason={}", was_replaced ? "replaced" : "signal");
  (*agent)->BeginStop();
  (*server)->StopAccepting();
  (*agent)->Drain(kDrainMax);
  server->reset();
  return was_replaced ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace berth::agent

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): so the standard declares it
  berth::agent::Options options;
  CLI::App app{"berth-agent: hands out the addresses of one node's pods, recorded in the API server.", "berth-agent"};
  app.add_option("--kubeconfig", options.kubeconfig, "Credentials for the API server; without it those of the pod")
      ->check(CLI::ExistingFile);
  app.add_option(
         "--node", options.agent.node, "Name of the Node object; default: from a kubeconfig of system:node:NAME")
      ->envname("NODE_NAME");
  app.add_option("--socket", options.socket, "UNIX socket for the CNI plugin")->capture_default_str();
  app.add_option("--state", options.agent.state_dir, "Folder for what must survive a reboot: the journal of DELs")
      ->capture_default_str();
  app.add_option("--run-dir", options.agent.run_dir, "Folder for what a reboot may lose; shared with berth-direct")
      ->capture_default_str();
  app.add_option(
         "--standby",
         options.agent.standby,
         "Addresses of a block that a pod may get a moment before that is written; 0: every ADD waits for its write")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag("--read-pods",
               options.agent.reads_pods,
               "Read a pod's annotations with a GET where the runtime hands over none; needs the right to get pods");
  app.add_option("--http-address",
                 options.http_address,
                 "Address and port for /healthz, /readyz and /metrics, such as 127.0.0.1:9745; default: socket only");
  app.add_option("--log-level", options.log_level, "error, warn, info or debug")
      ->check(CLI::IsMember({"error", "warn", "info", "debug"}))
      ->capture_default_str();
  // As CLI11 takes a list: the last one first.
  std::vector<std::string> arguments(std::reverse_iterator(argv + argc), std::reverse_iterator(argv + 1));
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& refused) {
    return app.exit(refused);
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("berth-agent"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  spdlog::set_level(spdlog::level::from_str(options.log_level));
  return berth::agent::Run(std::move(options));
}
