// SPDX-License-Identifier: Apache-2.0
// Dial: a TCP connection to a named host.
#pragma once

#include <cstdint>
#include <string>

#include "ipam/error.h"
#include "k8sclient/waiter.h"

namespace berth::k8sclient {

// Resolves the name and tries its addresses, the next one beginning 250 ms after the one before or when that failed
// (RFC 8305); the first connection that stands wins. The caller owns the socket, which is non-blocking.
// Errors: kUnavailable (no such host, refused, unreachable), kTimeout.
[[nodiscard]] ipam::Expected<int> Dial(const std::string& host, std::uint16_t port, Waiter& waiter);

}  // namespace berth::k8sclient
