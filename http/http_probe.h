// SPDX-License-Identifier: Apache-2.0
// Probe: asks a server of ours over its UNIX socket how it is, for exec probes: the image has neither curl nor a shell.
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace berth::http {

struct ProbeOptions {
  std::string socket;
  bool asks_ready = false;                                       // whether it can do its duty; else whether it runs
  std::chrono::milliseconds wait_max = std::chrono::seconds(5);  // to connect, and again for the answer
};

// What the server says of itself, such as "ok\n". Errors: kUnavailable: nobody listens; kTimeout; kNotReady, with what
// it says; kDecode: what answers is no HTTP server.
[[nodiscard]] Expected<std::string> Probe(const ProbeOptions& options);

}  // namespace berth::http
