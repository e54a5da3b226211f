// SPDX-License-Identifier: Apache-2.0
// berth-controller: waits until it leads, then watches and decides until a signal ends it (exit 0) or it loses the
// Lease (exit 1).
#include "reconciler/controller_main.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <malloc.h>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <variant>

#include <spdlog/spdlog.h>

#include "base/version.h"
#include "http/http_probe.h"
#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"
#include "reconciler/extender_server.h"
#include "reconciler/health.h"
#include "reconciler/lead.h"
#include "reconciler/logging.h"
#include "reconciler/options.h"

namespace berth::reconciler {
namespace {

// Host name and a random UUID, so that each start has another identity.
std::string Identity() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::random_device random;
  const auto four = [&random] { return random() % 0x1'0000; };
  return fmt::format(
      "{}_{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", host.data(), random(), four(), four(), four(), four(), random());
}

Expected<std::unique_ptr<k8sclient::Api>> Connect(const Options& options) {
  auto config = options.kubeconfig.empty()
                    ? k8sclient::InClusterConfig(k8sclient::ProcessEnvironment)
                    : k8sclient::LoadKubeconfig({options.kubeconfig}, "", k8sclient::ReadWholeFile);
  if (!config) return std::unexpected(std::move(config.error()));
  spdlog::info("controller started server={} source={}", config->server, config->source);
  return k8sclient::MakeHttpApi(*std::move(config),
                                {.user_agent = std::string("berth-controller/") + kVersion,
                                 .log = [](const std::string& line) { spdlog::warn("{}", line); }});
}

// The returned thread requests the stop of `source` on the first SIGTERM or SIGINT. Requires: both signals are blocked
// in every thread.
std::jthread StopOnSignal(std::stop_source& source, const sigset_t& signals) {
  return std::jthread([&source, signals](const std::stop_token& done) {
    const std::stop_callback wake(done, [thread = pthread_self()] { pthread_kill(thread, SIGINT); });
    int number = 0;
    sigwait(&signals, &number);
    if (done.stop_requested()) return;
    spdlog::info("ending signal={}", number);
    source.request_stop();
  });
}

int Fail(const char* what, const Error& error) {
  spdlog::error("{} err={} hint={}", what, Quoted(error.message), Quoted(error.details));
  return EXIT_FAILURE;
}

int Run(const Options& options) {
  SetUpLogging(options.log_level, options.logs_json);
  // Use one arena. With more arenas, each watching thread would keep the freed memory of its first list (124 MiB for
  // 100,000 pods), although the thread never allocates that much again.
  mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): this is the only thread yet
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  auto api = Connect(options);
  if (!api) return Fail("cannot reach an API server", api.error());
  ProcessObjects objects;
  std::atomic<bool> is_leading = false;
  std::unique_ptr<http::HttpServer> health;
  if (!options.health_address.empty() || !options.probe_socket.empty()) {
    // A controller that waits for the Lease is ready, because it can take over.
    const HealthPlaces places{.address = options.health_address, .socket = options.probe_socket};
    const auto why_not_ready = [&] {
      return is_leading && !objects.mailbox.IsLoaded()
                 ? std::string("leading, but the controller has not listed all kinds of objects yet")
                 : std::string();
    };
    auto started =
        ServeHealth(places, {.why_not_ready = why_not_ready, .metrics = [&objects] { return objects.metrics.Text(); }});
    if (!started) return Fail("cannot serve health", started.error());
    health = *std::move(started);
    spdlog::info("serving health port={} socket={}", health->tcp_port(), options.probe_socket);
  }
  if (options.extender_port != 0) {
    auto extender = ExtenderServer::Start(options, objects.metrics);
    if (!extender) return Fail("cannot serve the scheduler extender", extender.error());
    objects.extender = *std::move(extender);
  }
  std::stop_source source;
  const std::jthread signal_thread = StopOnSignal(source, signals);
  const auto lead = [&](const std::stop_token& stop) {
    is_leading = true;
    Lead(**api, objects, options.settings, stop);
  };
  if (!options.elects_leader) {
    lead(source.get_token());
  } else if (auto elected = Elect(
                 {.lease_namespace = options.lease_namespace, .lease_name = options.lease_name, .identity = Identity()},
                 **api,
                 objects.hand_over,
                 source.get_token(),
                 lead);
             !elected) {
    return Fail("lost the lease", elected.error());
  }
  spdlog::info("ended");
  return EXIT_SUCCESS;
}

}  // namespace

int ControllerMain(int argc, const char* const* argv) {
  const auto parsed = ParseOptions(argc, argv, kVersionAndCommit);
  if (const auto* exit = std::get_if<Exit>(&parsed)) return exit->code;
  if (const auto* probe = std::get_if<http::ProbeOptions>(&parsed)) {
    const auto answer = http::Probe(*probe);
    std::puts(answer ? answer->c_str() : answer.error().message.c_str());
    return answer ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  return Run(std::get<Options>(parsed));
}

}  // namespace berth::reconciler
