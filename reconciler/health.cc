// SPDX-License-Identifier: Apache-2.0
// Answers /healthz, /readyz and /metrics.
#include "reconciler/health.h"

#include <utility>

namespace berth::reconciler {

namespace {

using http::HttpAnswer;
using http::HttpRequest;

HttpAnswer Answer(const HttpRequest& request, const HealthSources& sources) {
  const auto text = [](int status, const std::string& line) {
    return HttpAnswer{.status = status, .content_type = "text/plain", .body = line + "\n"};
  };
  if (request.method != "GET") return text(404, "unknown; try GET /healthz, /readyz, /metrics");
  if (request.path == "/healthz") return text(200, "ok");
  if (request.path == "/metrics") return {.content_type = "text/plain", .body = sources.metrics()};
  if (request.path != "/readyz") return text(404, "unknown; try /healthz, /readyz, /metrics");
  const std::string reason = sources.why_not_ready();
  return reason.empty() ? text(200, "ok") : text(503, reason);
}

}  // namespace

Expected<std::unique_ptr<http::HttpServer>> ServeHealth(const HealthPlaces& places, HealthSources sources) {
  auto server = http::HttpServer::Make(
      {.socket_path = places.socket,
       .socket_limits = {.workers = 2},
       .tcp_address = places.address,
       .shares_port = false},
      {.answer = [sources = std::move(sources)](const HttpRequest& request) { return Answer(request, sources); },
       .overload =
           [] { return HttpAnswer{.status = 503, .content_type = "text/plain", .body = "too many callers\n"}; }});
  if (server) return server;
  std::string options = places.address.empty() ? "" : "--health-address";
  if (!places.socket.empty()) options += options.empty() ? "--probe-socket" : " or --probe-socket";
  return std::unexpected(server.error().Within(options));
}

}  // namespace berth::reconciler
