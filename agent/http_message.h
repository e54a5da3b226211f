// SPDX-License-Identifier: Apache-2.0
// Reading one HTTP/1.1 request from a socket and writing one answer to it, within a time and a size.
#pragma once

#include <chrono>

#include "agent/http_server.h"
#include "ipam/error.h"

namespace berth::agent {

// Only bodies with a Content-Length. Errors: kDecode: not HTTP; kInvalid: too large; kTimeout; kIo: the caller is gone.
[[nodiscard]] ipam::Expected<HttpRequest> ReadRequest(int descriptor, std::size_t body_bytes_max,
                                                      std::chrono::milliseconds limit);

// False: it could not be written as a whole.
[[nodiscard]] bool WriteAnswer(int descriptor, const HttpAnswer& answer, std::chrono::milliseconds limit);

// Whether the other side has closed the connection.
[[nodiscard]] bool HasHungUp(int descriptor);

}  // namespace berth::agent
