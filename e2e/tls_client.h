// SPDX-License-Identifier: Apache-2.0
// TlsClient: sends bytes to a server over TLS, with or without a client certificate, and returns everything that the
// server sends until it closes the connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::e2e {

// The server, and the client's credentials. All certificates and keys are PEM.
struct Upstream {
  std::string host;  // an IPv4 address
  std::uint16_t port = 0;
  std::string certificate_authority;
  std::string client_certificate = {};
  std::string client_key = {};
  std::string token = {};  // instead of certificate and key; the caller must put it into each request
};

// Several threads may call. Each call opens its own connection.
class TlsClient {
 public:
  // Throws std::runtime_error if the credentials are unusable, because the test cannot continue.
  explicit TlsClient(Upstream upstream);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Errors: kUnavailable (the request was not sent), kUnknownOutcome (the request was sent, and no answer came).
  [[nodiscard]] Expected<std::string> Exchange(std::string_view request) const;

  // Sends the request, and writes the server's bytes to `fd` until the server or the peer at `fd` has closed.
  void Stream(std::string_view request, int fd) const;

 private:
  class Context;
  class Session;
  Upstream upstream_;
  std::unique_ptr<Context> context_;
};

}  // namespace berth::e2e
