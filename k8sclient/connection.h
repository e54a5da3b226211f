// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the API server, on which libcurl sends one HTTP/1.1 request at a time.
//
// A Connection connects when a request needs it, and keeps the connection for the next request. A Connection never
// sends a request twice: if a kept connection turns out to be dead, libcurl would send the request again, but
// Connection stops libcurl before that.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/credentials.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {

// The server to connect to, and how to connect.
struct Endpoint {
  ServerUrl server;
  std::string tls_server_name = {};  // empty: the server's host
  bool insecure_skip_verify = false;
  std::optional<ServerUrl> proxy = {};  // http, https or socks5
  std::string user_agent = {};
  std::chrono::milliseconds connect_max = std::chrono::seconds(5);     // TCP and proxy
  std::chrono::milliseconds handshake_max = std::chrono::seconds(15);  // TLS with the server, after connecting

  // The name that the server's certificate must prove.
  [[nodiscard]] const std::string& ServerName() const {
    return tls_server_name.empty() ? server.host : tls_server_name;
  }
};

// Time limits of one exchange.
struct ExchangeLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::optional<std::chrono::milliseconds> idle_max = {};  // between received data
  std::stop_token stop = {};
};

struct ExchangeResult {
  Expected<Response> response;
  // The connection broke after the request was sent, and the sink got nothing: the caller may send a read again.
  bool may_repeat_read = false;
};

class CurlHandles;

class Connection {
 public:
  // Opens no connection. endpoint must outlive this. credential: the certificates for TLS.
  Connection(const Endpoint& endpoint, std::shared_ptr<const CredentialSnapshot> credential);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One thread at a time. credential: the headers, which may be newer than the certificates of the connection. sink:
  // null, or gets the body of a successful answer. Errors: those of Api::Call and Api::Watch.
  [[nodiscard]] ExchangeResult Exchange(const Request& request, const CredentialSnapshot& credential,
                                        const ExchangeLimits& limits, const BodySink* sink = nullptr);

  // The tls_serial of the certificates of this connection.
  [[nodiscard]] std::uint64_t tls_serial() const { return credential_->tls_serial; }

 private:
  class Transfer;

  const Endpoint& endpoint_;
  const std::shared_ptr<const CredentialSnapshot> credential_;
  std::unique_ptr<CurlHandles> handles_;
};

}  // namespace berth::k8sclient
