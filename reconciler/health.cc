// SPDX-License-Identifier: Apache-2.0
// The two endpoints.
#include "reconciler/health.h"

#include <atomic>
#include <charconv>
#include <optional>
#include <thread>
#include <utility>

#include <httplib.h>

namespace berth::reconciler {

namespace {

constexpr int kPortMax = 65535;
constexpr std::size_t kRequestBytesMax = 4096;

struct HostPort {
  std::string host;
  int port = 0;
};

std::optional<HostPort> ParseAddress(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  HostPort result{.host = address.substr(0, colon), .port = 0};
  if (result.host.front() == '[' && result.host.back() == ']') result.host = result.host.substr(1, colon - 2);
  const char* const last = address.data() + address.size();
  const auto [end, error] = std::from_chars(address.data() + colon + 1, last, result.port);
  if (error != std::errc() || end != last || result.port < 0 || result.port > kPortMax) return std::nullopt;
  return result;
}

}  // namespace

struct HealthServer::State {
  httplib::Server server;
  std::atomic<bool> has_ended = false;
  std::jthread thread;
};

ipam::Expected<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address,
                                                                  std::function<std::string()> why_not_ready) {
  const auto host_port = ParseAddress(address);
  if (!host_port) {
    return ipam::Fail(ipam::ErrorCode::kInvalid,
                      "health address " + ipam::Quoted(address) + ": not host:port, such as 0.0.0.0:8080");
  }
  auto state = std::make_unique<State>();
  httplib::Server& server = state->server;
  server.set_payload_max_length(kRequestBytesMax);
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.Get("/healthz",
             [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", "text/plain"); });
  server.Get("/readyz", [why = std::move(why_not_ready)](const httplib::Request&, httplib::Response& response) {
    const std::string reason = why();
    if (!reason.empty()) response.status = 503;
    response.set_content((reason.empty() ? "ok" : reason) + "\n", "text/plain");
  });
  int port = host_port->port;
  if (port == 0) {
    port = server.bind_to_any_port(host_port->host);
  } else if (!server.bind_to_port(host_port->host, port)) {
    port = -1;
  }
  if (port < 0) return ipam::Fail(ipam::ErrorCode::kIo, "health address " + ipam::Quoted(address) + ": cannot listen");
  state->thread = std::jthread([&server, &ended = state->has_ended] {
    static_cast<void>(server.listen_after_bind());
    ended = true;
  });
  // A server that is told to stop before it runs would run for ever.
  while (!server.is_running() && !state->has_ended) std::this_thread::yield();
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(state), port));
}

HealthServer::HealthServer(std::unique_ptr<State> state, int port) : state_(std::move(state)), port_(port) {}

HealthServer::~HealthServer() { state_->server.stop(); }

}  // namespace berth::reconciler
