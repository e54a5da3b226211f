// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 on a UNIX socket, for callers on this node, and on a TCP port, with or without TLS.
//
// Without TLS a connection carries one request. A slow or silent caller takes no thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace berth::http {

struct HttpRequest {
  std::string method;
  std::string path;
  std::string body;
  bool is_local = false;  // came over the UNIX socket, from root or this process's user
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides those of HTTP itself
  std::string body = {};
  // The server calls it once: after it has written the answer, or when it could not because the caller had gone.
  std::function<void(bool delivered)> done = {};
};

struct HttpLimits {
  // Requests that are served at a time. An eighth of them must be urgent.
  std::size_t workers = 64;
  std::size_t reading_max = 1024;  // connections without a whole request; with one more, the server closes the oldest
  std::size_t waiting_max = 1024;  // urgent requests that wait for a worker, and as many others
  std::size_t body_bytes_max = std::size_t{5} << 20;
  // With TLS: how many requests at a time may have a large body; the server answers more of them with 503.
  std::size_t large_body_bytes = std::size_t{1} << 20;
  std::size_t large_bodies_max = 4;
  std::chrono::milliseconds io_max = std::chrono::seconds(10);  // for the handshake, a whole request, a whole answer
};

// PEM files. The server reads them again when they change; if they are of no use then, it keeps what it read before.
struct HttpTlsFiles {
  std::string certificate;
  std::string key;
  std::string client_ca = {};  // empty: any caller may ask
};

struct HttpServerOptions {
  std::string socket_path = {};  // the server creates it with mode 0600 and replaces an existing one; empty: none
  HttpLimits socket_limits = {};
  // "127.0.0.1:9745", "[::1]:9745", ":9745" (every address of the machine); port 0: any free one; "host:9746-9749": the
  // first free port of that range; empty: no TCP.
  std::string tcp_address = {};
  // Two servers of one user may listen on one port at a time, as during an update: the kernel asks either of them.
  bool shares_port = true;
  HttpLimits tcp_limits = {.workers = 4, .reading_max = 64, .waiting_max = 64, .body_bytes_max = std::size_t{64} << 10};
  std::optional<HttpTlsFiles> tls = {};  // HTTPS on TCP, with many requests per connection
};

struct HttpHandlers {
  std::function<HttpAnswer(const HttpRequest&)> answer;  // may block; an exception becomes a 500
  std::function<HttpAnswer()> overload;                  // too many requests wait; must not block
  // The request does not wait behind those that are not urgent. Must not block. Unset: no request is urgent.
  std::function<bool(const HttpRequest&)> is_urgent = {};
};

class HttpServer {
 public:
  // Listens. Errors: kIo, kInvalid, with path, address or file.
  [[nodiscard]] static Expected<std::unique_ptr<HttpServer>> Make(const HttpServerOptions& options,
                                                                  HttpHandlers handlers);
  // Stops accepting, answers the callers that the kernel has accepted, ends.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // From now on the kernel refuses callers; the server answers those that the kernel accepted before. The socket's path
  // stays: a successor may replace it at any moment, so whoever removed it could remove the successor's.
  void StopAccepting();

  // 0: no TCP.
  [[nodiscard]] int tcp_port() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::http
