// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the API server, over which one HTTP/1.1 request at a time is sent.
//
// It connects when it has to and keeps the connection for the next request. It never sends a request twice, and it
// knows whether the peer can have had all of one: a request of which the last byte was not handed over cannot be
// executed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "ipam/error.h"
#include "k8sclient/api.h"
#include "k8sclient/byte_stream.h"
#include "k8sclient/credentials.h"
#include "k8sclient/response_parser.h"
#include "k8sclient/tls.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {

// Where to connect to, and how.
struct Endpoint {
  ServerUrl server;
  std::string tls_server_name = {};  // empty: the server's host
  std::optional<ServerUrl> proxy = {};
  std::string user_agent = {};
  std::chrono::milliseconds connect_max = std::chrono::seconds(5);     // proxy included
  std::chrono::milliseconds handshake_max = std::chrono::seconds(15);  // TLS with the server

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
  ipam::Expected<Response> response;
  // The connection stood and then broke. If the error is kUnavailable, the request may be sent again: it was a read of
  // which nothing was handed over, or a write that the peer cannot have had.
  bool broke = false;
};

class Connection {
 public:
  // Opens nothing. endpoint must outlive this; tls is null for an http:// server without an https:// proxy.
  Connection(const Endpoint& endpoint, std::shared_ptr<const TlsContext> tls)
      : endpoint_(endpoint), tls_(std::move(tls)) {}

  // One thread at a time. sink: null, or where the body of a successful answer goes. Errors: as Api::Call and
  // Api::Watch.
  [[nodiscard]] ExchangeResult Exchange(const Request& request, const CredentialSnapshot& credential,
                                        const ExchangeLimits& limits, const BodySink* sink = nullptr);

  [[nodiscard]] const TlsContext* tls() const { return tls_.get(); }

 private:
  class Answer;
  [[nodiscard]] ipam::Expected<void> MakeReady(Waiter& waiter);
  [[nodiscard]] ipam::Expected<std::unique_ptr<ByteStream>> Open(Waiter& waiter) const;
  // in_handshake: it failed in TLS with the server.
  [[nodiscard]] ipam::Expected<std::unique_ptr<ByteStream>> OpenOnce(Waiter& waiter, bool& in_handshake) const;
  [[nodiscard]] std::string Head(const Request& request, const CredentialSnapshot& credential) const;
  [[nodiscard]] ExchangeResult ReadAnswer(const Request& request, const ExchangeLimits& limits, const BodySink* sink,
                                          Waiter& waiter);

  const Endpoint& endpoint_;
  const std::shared_ptr<const TlsContext> tls_;
  std::unique_ptr<ByteStream> stream_;  // null: not connected
  std::chrono::steady_clock::time_point used_at_;
};

}  // namespace berth::k8sclient
