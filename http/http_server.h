// SPDX-License-Identifier: Apache-2.0
// HttpServer: small HTTP/1.1 on a UNIX socket, for callers on this node, and on a TCP port for probes and Prometheus.
// Slow callers, and those that send nothing, hold nobody else up.
//
// One request per connection. Why it is not cpp-httplib: docs/libraries.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ipam/error.h"

namespace berth::http {

struct HttpRequest {
  std::string method;
  std::string path;
  std::string body;
  bool is_local = false;  // came over the UNIX socket from a process that may
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string headers = {};  // further lines, each with "\r\n"
  std::string body = {};
  // Called once after the answer was written, or could not be: the reader was gone.
  std::function<void(bool delivered)> done = {};
};

struct HttpServerOptions {
  std::string socket_path = {};  // made with mode 0600; one that is there is replaced; empty: none
  // "127.0.0.1:9745", "[::1]:9745", ":9745" (every address of the machine); port 0: any that is free; "host:9746-9749":
  // the first free port of that range; empty: no TCP.
  std::string tcp_address = {};
  // Two servers of one user may listen on one port at a time, as during an update: the kernel asks either of them.
  bool shares_port = true;
  // Of the socket. One in eight is kept for urgent requests. TCP has a few of its own.
  std::size_t workers = 64;
  std::size_t reading_max = 1024;                     // connections of which the request has not come as a whole
  std::size_t waiting_max = 1024;                     // whole requests that wait for a worker
  std::size_t body_bytes_max = std::size_t{5} << 20;  // over the socket; over TCP nobody has much to say
  std::chrono::milliseconds io_max = std::chrono::seconds(10);  // for the whole request, and for the whole answer
};

struct HttpHandlers {
  std::function<HttpAnswer(const HttpRequest&)> answer;
  std::function<HttpAnswer()> overload;  // too many wait
  // Need not wait for a worker behind those that are not. Unset: none is.
  std::function<bool(const HttpRequest&)> is_urgent = {};
};

class HttpListener;

class HttpServer {
 public:
  // Listens. An exception that a handler lets out is a 500. Errors: kIo, kInvalid, with path or address.
  [[nodiscard]] static ipam::Expected<std::unique_ptr<HttpServer>> Make(HttpServerOptions options,
                                                                        HttpHandlers handlers);
  // Stops accepting, serves what has come, ends.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Callers that come from now on are refused. Whom the kernel has let in is served. The socket's path stays: the
  // process that follows can replace it at any moment, and nobody could remove it without a chance to remove that
  // one's.
  void StopAccepting();

  // 0: none.
  [[nodiscard]] int tcp_port() const { return tcp_port_; }

 private:
  HttpServer(HttpServerOptions options, HttpHandlers handlers);
  [[nodiscard]] ipam::Expected<void> ListenLocal();
  [[nodiscard]] ipam::Expected<void> ListenTcp();

  const HttpServerOptions options_;
  const HttpHandlers handlers_;
  int tcp_port_ = 0;
  std::vector<std::unique_ptr<HttpListener>> listeners_;
};

}  // namespace berth::http
