// SPDX-License-Identifier: Apache-2.0
// OpenTunnel: asks a proxy for a connection to somewhere else (HTTP CONNECT, RFC 9110 9.3.6; SOCKS5, RFC 1928 and
// 1929).
#pragma once

#include "ipam/error.h"
#include "k8sclient/byte_stream.h"
#include "k8sclient/url.h"
#include "k8sclient/waiter.h"

namespace berth::k8sclient {

// After success every byte of `stream` goes to and comes from the target. The proxy resolves the target's name.
// Errors: kUnavailable (the proxy refuses, or talks nonsense), kTimeout.
[[nodiscard]] ipam::Expected<void> OpenTunnel(ByteStream& stream, const ServerUrl& proxy, const ServerUrl& target,
                                              Waiter& waiter);

}  // namespace berth::k8sclient
