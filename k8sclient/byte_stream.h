// SPDX-License-Identifier: Apache-2.0
// ByteStream: bytes to and from a peer, over TCP or TLS, with time limits.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ipam/error.h"
#include "k8sclient/tls.h"
#include "k8sclient/waiter.h"

struct bio_st;

namespace berth::k8sclient {

// Errors of all calls: kTimeout (the waiter's), kUnavailable (the connection is broken, or the peer cannot be trusted).
class ByteStream {
 public:
  // Takes over a connected, non-blocking TCP socket.
  explicit ByteStream(int socket);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // From here on everything goes through TLS, also through TLS within TLS. server_name: whom the peer must prove to be.
  [[nodiscard]] ipam::Expected<void> StartTls(const TlsContext& context, const std::string& server_name,
                                              Waiter& waiter);

  // At least one byte, or 0 when the peer has closed the connection in order (under TLS: said so under its protection).
  // Reads on until `until`, then returns kTimeout "no data arrived within the time limit".
  [[nodiscard]] ipam::Expected<std::size_t> Read(std::span<char> into, Waiter& waiter,
                                                 Waiter::TimePoint until = Waiter::TimePoint::max());

  // All of it. After an error the peer cannot have all of it.
  [[nodiscard]] ipam::Expected<void> Write(std::string_view bytes, Waiter& waiter);

  // Without waiting: false if the peer has closed, or sent something that nobody asked for.
  [[nodiscard]] bool IsQuiet();

 private:
  // Waits until the operation that has just failed can go on; an error if it cannot.
  [[nodiscard]] ipam::Expected<void> AwaitRetry(const char* doing, Waiter& waiter, Waiter::TimePoint until);

  int socket_;
  bio_st* top_;            // what is read from and written to; it owns those below it
  ssl_st* tls_ = nullptr;  // of the uppermost TLS; owned by its BIO
};

}  // namespace berth::k8sclient
