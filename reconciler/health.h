// SPDX-License-Identifier: Apache-2.0
// Health: /healthz says that the process runs, /readyz whether it can do its duty, /metrics what it counted.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "http/http_server.h"

namespace berth::reconciler {

struct HealthPlaces {
  std::string address = {};  // "host:port"; "host:first-last": the first free port, which no other process shares
  std::string socket = {};   // a UNIX socket, for probes where no port is to be taken
};

// Both are called from any thread.
struct HealthSources {
  std::function<std::string()> why_not_ready;  // empty: ready
  std::function<std::string()> metrics = [] { return std::string(); };
};

// Serves all in these places, of which one may be empty, until it is destroyed. Errors: kInvalid (no such address), kIo
// (the port is taken).
[[nodiscard]] Expected<std::unique_ptr<http::HttpServer>> ServeHealth(const HealthPlaces& places,
                                                                      HealthSources sources);

}  // namespace berth::reconciler
