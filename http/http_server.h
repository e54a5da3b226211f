// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 on a UNIX socket, for callers on this node, and on a TCP port, with or without TLS.
//
// Without TLS a connection carries one request. A slow or silent caller occupies no thread.
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
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides Content-Type and Content-Length
  std::string body = {};
  // The server calls `done` once: with true after it has written the answer; with false if it could not write the
  // answer, for example because the caller has gone.
  std::function<void(bool delivered)> done = {};
};

struct HttpLimits {
  // How many requests the server serves at a time. It keeps an eighth of the workers, rounded down, for urgent
  // requests.
  std::size_t workers = 64;
  std::size_t reading_max = 1024;  // connections without a whole request; for one more, the server ends one (gate.h)
  std::size_t waiting_max = 1024;  // urgent requests that may wait for a worker, and as many other requests
  std::size_t body_bytes_max = std::size_t{5} << 20;
  // With TLS: a body of more than large_body_bytes is large. While the server reads or serves large_bodies_max requests
  // with large bodies, it answers further ones with 503.
  std::size_t large_body_bytes = std::size_t{1} << 20;
  std::size_t large_bodies_max = 4;
  std::chrono::milliseconds io_max = std::chrono::seconds(10);  // for each handshake, request (TLS: its body), answer
};

// PEM files. The server reads the files again when they change. If the new files are unusable, the server keeps the old
// certificates.
struct HttpTlsFiles {
  std::string certificate;
  std::string key;
  std::string client_ca = {};  // empty: the server answers any caller
};

struct HttpServerOptions {
  std::string socket_path = {};  // created with mode 0600, and replaces an existing file; empty: no UNIX socket
  HttpLimits socket_limits = {};
  // "127.0.0.1:9745", "[::1]:9745", ":9745" (every address of the machine); port 0: any free port;
  // "127.0.0.1:9746-9749": the first free port of the range; empty: no TCP.
  std::string tcp_address = {};
  // True: another server of the same user may listen on the same port, as during an update. The kernel then gives each
  // caller to one of the servers.
  bool shares_port = true;
  HttpLimits tcp_limits = {.workers = 4, .reading_max = 64, .waiting_max = 64, .body_bytes_max = std::size_t{64} << 10};
  std::optional<HttpTlsFiles> tls = {};  // HTTPS on TCP, with many requests per connection
};

struct HttpHandlers {
  std::function<HttpAnswer(const HttpRequest&)> answer;  // may block; an exception becomes a 500
  std::function<HttpAnswer()> overload;                  // called if too many requests wait; must not block
  // True: the request does not wait behind requests that are not urgent. Must not block. Unset: no request is urgent.
  std::function<bool(const HttpRequest&)> is_urgent = {};
};

class HttpServer {
 public:
  HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Stops accepting, and answers the callers that the kernel has accepted.
  virtual ~HttpServer() = default;

  // Starts to listen. Errors: kIo, kInvalid, with the path, address or file.
  [[nodiscard]] static Expected<std::unique_ptr<HttpServer>> Make(const HttpServerOptions& options,
                                                                  HttpHandlers handlers);

  // After StopAccepting the kernel refuses callers; the server still answers callers that the kernel accepted before.
  // StopAccepting leaves the socket's path: another process may already have put its own socket there, as during an
  // update.
  virtual void StopAccepting() = 0;

  // The port on which the server listens; 0: no TCP.
  [[nodiscard]] virtual int tcp_port() const = 0;
};

}  // namespace berth::http
