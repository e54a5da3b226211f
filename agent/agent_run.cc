// SPDX-License-Identifier: Apache-2.0
// Runs agents of the node one after another in one process, and waits between them.
#include "agent/agent_run.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/mutex.h"
#include "cni/config.h"
#include "cni/forward.h"
#include "http/http_server.h"
#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"
#include "node/held_file.h"

namespace berth::agent {
namespace {

using http::HttpAnswer;
using http::HttpRequest;
using http::HttpServer;

constexpr std::chrono::seconds kDrainMax{20};
constexpr std::chrono::minutes kRetireMax{2};
// A waiting agent checks this often whether the node has another agent, because a released lock wakes nobody.
constexpr timespec kPassiveLook{.tv_sec = 0, .tv_nsec = 200'000'000};

Expected<k8sclient::ClientConfig> LoadConfig(const std::string& kubeconfig) {
  if (kubeconfig.empty()) return k8sclient::InClusterConfig(k8sclient::ProcessEnvironment);
  return k8sclient::LoadKubeconfig({kubeconfig}, /*context=*/"", k8sclient::ReadWholeFile);
}

HttpAnswer Text(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

HttpAnswer Answer(Agent& agent, const HttpRequest& request) {
  if (request.path == "/cni") {
    if (!request.is_local || request.method != "POST") return Text(403, "POST to /cni over the UNIX socket\n");
    Reply reply = agent.Handle(request.body);
    HttpAnswer answer{.status = reply.ok ? 200 : 500,
                      .headers = {{"Berth-Took", reply.is_new ? "1" : "0"}},
                      .body = std::move(reply.body)};
    if (!answer.body.empty()) answer.body += '\n';
    answer.done = [hold = std::move(reply.hold), take_back = std::move(reply.take_back)](bool delivered) {
      if (!delivered && take_back) take_back();
    };
    return answer;
  }
  if (request.method != "GET") return Text(404, "unknown; try GET /healthz, /readyz, /metrics, /debug/blocks\n");
  if (request.path == "/healthz") return Text(200, "ok\n");
  if (request.path == "/readyz") return agent.IsReady() ? Text(200, "ok\n") : Text(503, "blocks are not loaded yet\n");
  if (request.path == "/metrics") return Text(200, agent.MetricsText());
  // /debug/blocks shows names of pods and namespaces, so only the local socket (root on the node) may ask for it.
  if (request.path == "/debug/blocks" && request.is_local) return {.body = agent.DebugBlocks()};
  return Text(404, "unknown; try GET /healthz, /readyz, /metrics, and over the UNIX socket /debug/blocks\n");
}

// Urgent requests do not wait behind ADDs that wait for the API server: DELs (they free addresses that ADDs need, and
// the agent can answer them with the journal), and questions about the health of the process and the node.
bool IsUrgent(const HttpRequest& request) {
  return request.path != "/cni" || cni::BeginsWithVerb(request.body, cni::Verb::kDel) ||
         cni::BeginsWithVerb(request.body, cni::Verb::kStatus);
}

// Each caller, each request under way and each watch needs a file descriptor, and more than 1,024 (the usual limit) may
// be needed.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    spdlog::warn("cannot raise the limit of open files err=\"{}\"", std::strerror(errno));
}

// Runs agents of the node one after another in one process.
class Run {
 public:
  Run(k8sclient::Api& api, const RunOptions& options, const sigset_t& signals)
      : api_(api), options_(options), signals_(signals) {}

  // Serves, or waits while another agent serves, until SIGTERM or SIGINT.
  Expected<void> UntilTold() {
    auto probes = ServeProbes();
    if (!probes) return std::unexpected(probes.error());
    while (true) {
      const auto lock = Serve();
      if (!lock) return std::unexpected(lock.error());
      if (!*lock) return {};
      const auto is_alone = WaitAsPassive(**lock);
      if (!is_alone) return std::unexpected(is_alone.error());
      if (!*is_alone) return {};
    }
  }

 private:
  // Returns nullptr if no probe socket is configured.
  Expected<std::unique_ptr<HttpServer>> ServeProbes();
  HttpAnswer AnswerProbe(const HttpRequest& request);
  // Returns the node's lock if another agent has taken over the node, or nullopt if the process is told to end.
  Expected<std::optional<node::HeldFile>> Serve();
  // Waits while another agent of the node runs. Returns true if none runs any more, false if the process is told to
  // end. `lock`: the lock that both agents share, as an open file. If somebody removed the files of /run/berth, the
  // path names another file, and a lock of that file would not wait for the other agent: then two agents would serve,
  // and the other agent's notes of addresses might be lost.
  [[nodiscard]] Expected<bool> WaitAsPassive(const node::HeldFile& lock) const;

  k8sclient::Api& api_;
  const RunOptions& options_;
  const sigset_t& signals_;
  Mutex mutex_;
  Agent* agent_ BERTH_GUARDED_BY(mutex_) = nullptr;  // nullptr while the process waits
};

Expected<std::unique_ptr<HttpServer>> Run::ServeProbes() {
  if (options_.probe_socket.empty()) return nullptr;
  return HttpServer::Make({.socket_path = options_.probe_socket, .socket_limits = {.workers = 2}},
                          {.answer = [this](const HttpRequest& request) { return AnswerProbe(request); },
                           .overload = [] { return Text(503, "too many callers\n"); },
                           .is_urgent = {}});
}

HttpAnswer Run::AnswerProbe(const HttpRequest& request) {
  const Lock lock(mutex_);
  if (agent_ != nullptr && request.path != "/cni") return Answer(*agent_, request);
  // A waiting process reports ready, because it serves within 1 s after the other agent has ended. The DaemonSet
  // controller deletes an old pod that is not ready, whatever the state of the new pod.
  const bool is_asked = request.path == "/healthz" || request.path == "/readyz";
  return Text(is_asked ? 200 : 503, "waiting: another agent serves this node\n");
}

Expected<std::optional<node::HeldFile>> Run::Serve() {
  auto agent = Agent::Make(api_, k8sclient::RealClock(), options_.agent, [] { kill(getpid(), SIGUSR1); });
  if (!agent) return std::unexpected(agent.error());
  auto server = HttpServer::Make({.socket_path = options_.socket, .tcp_address = options_.http_address},
                                 {.answer = [&agent](const HttpRequest& request) { return Answer(**agent, request); },
                                  .overload =
                                      [] {
                                        Reply busy = Agent::Busy();
                                        return HttpAnswer{.status = 503, .body = std::move(busy.body)};
                                      },
                                  .is_urgent = IsUrgent});
  if (!server) return std::unexpected(server.error());
  const auto show = [this](Agent* shown) {
    const Lock lock(mutex_);
    agent_ = shown;
  };
  show(agent->get());
  (*agent)->Start();
  spdlog::info("serving socket={} node={} http={}", options_.socket, options_.agent.node, options_.http_address);
  int received = 0;
  sigwait(&signals_, &received);
  const bool was_replaced = received == SIGUSR1;
  spdlog::info("serving ends reason={}", was_replaced ? "replaced" : "signal");
  (*agent)->BeginStop();
  (*server)->StopAccepting();
  (*agent)->Drain(kDrainMax);
  show(nullptr);
  server->reset();
  if (!was_replaced) return std::nullopt;
  return (*agent)->KeepLock();
}

Expected<bool> Run::WaitAsPassive(const node::HeldFile& lock) const {
  spdlog::info("waiting until the other agent of this node ends node={}", options_.agent.node);
  while (lock.is_open()) {
    const auto is_alone = node::LockExclusively(lock, /*deadline=*/0);
    if (!is_alone) return std::unexpected(is_alone.error());
    if (*is_alone) break;
    const int received = sigtimedwait(&signals_, nullptr, &kPassiveLook);
    if (received == SIGTERM || received == SIGINT) return false;
  }
  spdlog::info("every other agent of the node has stopped node={}", options_.agent.node);
  return true;
}

Expected<void> Retire(k8sclient::Api& api, const RunOptions& options) {
  const auto agent = Agent::Make(api, k8sclient::RealClock(), options.agent, [] {});
  if (!agent) return std::unexpected(agent.error());
  auto retired = (*agent)->Retire(kRetireMax);
  if (retired) spdlog::info("retired: berth-direct serves this node now node={}", options.agent.node);
  return retired;
}

}  // namespace

int Complain(const Error& error) {
  spdlog::error("{}{}{}", error.message, error.details.empty() ? "" : ": ", error.details);
  return EXIT_FAILURE;
}

int RunAgent(RunOptions options) {
  RaiseDescriptorLimit();
  auto config = LoadConfig(options.kubeconfig);
  if (!config) return Complain(config.error());
  options.agent.server = config->server;
  options.agent.loaded_mark = options.socket + std::string(cni::kLoadedMarkSuffix);
  options.agent.run_dir = std::filesystem::path(options.socket).parent_path();
  if (options.agent.node.empty()) {
    // The node's credentials contain the node's name.
    const auto user = k8sclient::UserName(*config, k8sclient::ReadWholeFile);
    constexpr std::string_view kNodeUser = "system:node:";
    if (user && user->starts_with(kNodeUser)) options.agent.node = user->substr(kNodeUser.size());
  }
  if (options.agent.node.empty()) {
    spdlog::error("--node is not given: name the node this agent runs on (in a pod: the field spec.nodeName)");
    return EXIT_FAILURE;
  }
  auto api = k8sclient::MakeHttpApi(*std::move(config),
                                    {.user_agent = "berth-agent/" + options.version,
                                     .log = [](const std::string& line) { spdlog::warn("{}", line); }});
  if (!api) return Complain(api.error());

  // The main thread takes these signals with sigwait, so all threads block them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const auto ended = options.retires ? Retire(**api, options) : Run(**api, options, signals).UntilTold();
  return ended ? EXIT_SUCCESS : Complain(ended.error());
}

}  // namespace berth::agent
