// SPDX-License-Identifier: Apache-2.0
// Probe: asks a program of berth over its UNIX socket whether the program is healthy or ready. The kubelet's
// exec probes use Probe, because the image contains neither curl nor a shell.
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace berth::http {

struct ProbeOptions {
  std::string socket;
  bool asks_ready = false;                                       // true: GET /readyz; false: GET /healthz
  std::chrono::milliseconds wait_max = std::chrono::seconds(5);  // for connecting, and again for the answer
};

// Returns the body of the server's answer, such as "ok\n". Errors: kInvalid (the path is too long), kUnavailable (no
// program listens), kTimeout, kNotReady (the status is not 200; the message is the body), kDecode (the answer is not
// HTTP, or the connection breaks before its end).
[[nodiscard]] Expected<std::string> Probe(const ProbeOptions& options);

}  // namespace berth::http
