// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the API server, over which one request at a time is sent.
//
// It connects when it has to and keeps the connection for the next request. It sends a request at most once if it is a
// write: libcurl by itself repeats a request whose kept-alive connection was closed before any answer came, and the
// server may have executed the first one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "ipam/error.h"
#include "k8sclient/api.h"
#include "k8sclient/credentials.h"

namespace berth::k8sclient {

// Where to connect to, and how.
struct Endpoint {
  std::string server;
  std::string tls_server_name = {};
  bool insecure_skip_tls_verify = false;
  std::string proxy = {};     // URL; empty: none
  std::string no_proxy = {};  // hosts, domains and CIDRs that are reached without it
  std::string user_agent = {};
  std::chrono::milliseconds connect_max = std::chrono::seconds(5);
};

// How long one exchange may take.
struct ExchangeLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::optional<std::chrono::milliseconds> idle_max = {};  // nothing received for that long
  std::stop_token stop = {};
};

// Lines of a successful answer go to the sink instead of into the body.
struct StreamTo {
  const WatchSink& sink;
  std::size_t line_bytes_max;
};

struct ExchangeResult {
  ipam::Expected<Response> response;
  // The connection broke after the request was sent and before the answer was complete.
  bool broke = false;
};

class Connection {
 public:
  // Opens nothing. A TLS connection is made with the certificates of `credential`.
  Connection(Endpoint endpoint, std::shared_ptr<const CredentialSnapshot> credential);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // One thread at a time. Sends `request` with the headers of `credential`, which has the constructor's tls_serial.
  // stream: null unless the answer is a watch. Errors: as Api::Call and Api::Watch.
  [[nodiscard]] ExchangeResult Exchange(const Request& request, const CredentialSnapshot& credential,
                                        const ExchangeLimits& limits, const StreamTo* stream = nullptr);

  [[nodiscard]] std::uint64_t tls_serial() const;

 private:
  class Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace berth::k8sclient
