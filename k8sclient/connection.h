// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the API server, over which one HTTP/1.1 request at a time is sent, by libcurl.
//
// It connects when it has to and keeps the connection for the next request. It never sends a request twice: libcurl
// would do so where a kept connection turns out to be dead, and is stopped before it does.
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

// Where to connect to, and how.
struct Endpoint {
  ServerUrl server;
  std::string tls_server_name = {};  // empty: the server's host
  bool insecure_skip_verify = false;
  std::optional<ServerUrl> proxy = {};  // http, https or socks5
  std::string user_agent = {};
  std::chrono::milliseconds connect_max = std::chrono::seconds(5);     // TCP and proxy
  std::chrono::milliseconds handshake_max = std::chrono::seconds(15);  // TLS with the server, after that

  // What the server's certificate has to be for.
  [[nodiscard]] const std::string& ServerName() const {
    return tls_server_name.empty() ? server.host : tls_server_name;
  }
};

// How long one exchange may take.
struct ExchangeLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::optional<std::chrono::milliseconds> idle_max = {};  // nothing received for that long
  std::stop_token stop = {};
};

struct ExchangeResult {
  Expected<Response> response;
  // The connection broke after the request had been sent, and nothing was handed over: a read may be sent again.
  bool broke = false;
};

class CurlHandles;

class Connection {
 public:
  // Opens nothing. endpoint must outlive this; credential: the certificates for TLS.
  Connection(const Endpoint& endpoint, std::shared_ptr<const CredentialSnapshot> credential);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One thread at a time. credential: the headers, which may be newer than the certificates. sink: null, or where the
  // body of a successful answer goes. Errors: as Api::Call and Api::Watch.
  [[nodiscard]] ExchangeResult Exchange(const Request& request, const CredentialSnapshot& credential,
                                        const ExchangeLimits& limits, const BodySink* sink = nullptr);

  // Which certificates it was made with.
  [[nodiscard]] std::uint64_t tls_serial() const { return credential_->tls_serial; }

 private:
  class Transfer;

  const Endpoint& endpoint_;
  const std::shared_ptr<const CredentialSnapshot> credential_;
  std::unique_ptr<CurlHandles> handles_;
};

}  // namespace berth::k8sclient
