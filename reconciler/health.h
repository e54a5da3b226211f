// SPDX-License-Identifier: Apache-2.0
// Health: three paths over HTTP. /healthz says that the process runs, /readyz says whether the process can lead, and
// /metrics returns the metrics.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "http/http_server.h"

namespace berth::reconciler {

struct HealthPlaces {
  // "host:port", or "host:first-last" for the first free port of this range. No other process can share the port.
  std::string address = {};
  std::string socket = {};  // a UNIX socket, for probes without a port
};

// Any thread may call both functions.
struct HealthSources {
  std::function<std::string()> why_not_ready;  // empty: ready
  std::function<std::string()> metrics = [] { return std::string(); };
};

// Serves all paths at these places, of which one may be empty, until the server is destroyed. Errors: kInvalid (no such
// address), kIo (the port is taken).
[[nodiscard]] Expected<std::unique_ptr<http::HttpServer>> ServeHealth(const HealthPlaces& places,
                                                                      HealthSources sources);

}  // namespace berth::reconciler
