// SPDX-License-Identifier: Apache-2.0
// Server: HTTPS/1.1 for kube-scheduler, on one thread.
//
// Callers that are slow or silent hold up nobody: every step has a time limit, and a new connection takes the place of
// another when there are too many: of the oldest in its handshake, else of the one that has been idle longest.
// Certificate, key and client CA are read anew when their files change; connections that exist keep theirs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "extender/service.h"
#include "ipam/error.h"

namespace berth::extender {

struct ServerLimits {
  std::size_t connections = 32;
  std::size_t head_bytes = 8 << 10;
  std::size_t body_bytes = 16 << 20;
  // Larger bodies are read from so many connections at once; others get 503. So all bodies together have a bound.
  std::size_t large_body_bytes = 1 << 20;
  std::size_t large_bodies = 4;
  std::chrono::milliseconds handshake{5'000};
  std::chrono::milliseconds idle{120'000};     // for the next request
  std::chrono::milliseconds transfer{10'000};  // for a body to come, or an answer to go
};

struct ServerOptions {
  std::string address = "::";  // an IP address; "::" takes IPv4 as well
  std::uint16_t port = 0;      // 0: any
  std::string certificate_file;
  std::string key_file;
  std::string client_ca_file = {};  // empty: any caller may ask
  ServerLimits limits = {};
};

class Server {
 public:
  using Handler = std::function<HttpAnswer(std::string_view method, std::string_view target, std::string_view body)>;

  // Serves until it is destroyed. `handler` is called by the server's thread. Errors: kInvalid (no such address, no
  // certificate or key in the files), kIo (the port is taken, a file cannot be read).
  [[nodiscard]] static ipam::Expected<std::unique_ptr<Server>> Start(ServerOptions options, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::extender
