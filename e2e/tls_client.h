// SPDX-License-Identifier: Apache-2.0
// TlsClient: sends bytes to a server over TLS, with a client certificate if it has one, and takes back what the server
// says until it closes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::e2e {

// Where requests go, and as whom. All PEM.
struct Upstream {
  std::string host;  // an IPv4 address
  std::uint16_t port = 0;
  std::string certificate_authority;
  std::string client_certificate = {};
  std::string client_key = {};
  std::string token = {};  // instead of the two; whoever writes the requests sends it along
};

// Several threads may call. Every call has its own connection.
class TlsClient {
 public:
  // Throws std::runtime_error if the credentials cannot be used: a test cannot go on then.
  explicit TlsClient(Upstream upstream);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Errors: kUnavailable (nothing was sent), kUnknownOutcome (sent, no answer).
  [[nodiscard]] Expected<std::string> Exchange(std::string_view request) const;

  // Sends the request, and what the server says to `fd`, piece by piece, until one of the two has closed.
  void Stream(std::string_view request, int fd) const;

 private:
  class Context;
  class Session;
  Upstream upstream_;
  std::unique_ptr<Context> context_;
};

}  // namespace berth::e2e
