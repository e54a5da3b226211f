// SPDX-License-Identifier: Apache-2.0
// HttpServer: small HTTP/1.1 on a UNIX socket, for callers on this node, and on a TCP port for probes and Prometheus.
//
// One request per connection. Not cpp-httplib: the packaged one has no UNIX sockets, no look at the peer, no bound on
// waiting connections, and does not tell whether an answer reached its reader (docs/libraries.md).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ipam/error.h"

namespace berth::agent {

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
  std::string socket_path;       // made with mode 0600; one that is there is replaced
  std::string tcp_address = {};  // "127.0.0.1:9745", "[::1]:9745", ":9745"; empty: none
  std::size_t workers = 64;
  std::size_t waiting_max = 1024;  // connections, beyond those that are served
  std::size_t body_bytes_max = std::size_t{5} << 20;
  std::chrono::milliseconds io_max = std::chrono::seconds(10);  // for the whole request, and for the whole answer
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;
  using Overload = std::function<HttpAnswer()>;

  // Listens. `overload` makes the answer when too many wait. Errors: kIo, with path or address.
  [[nodiscard]] static ipam::Expected<std::unique_ptr<HttpServer>> Make(HttpServerOptions options, Handler handler,
                                                                        Overload overload);
  // Stops accepting, serves what waits, ends.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void StopAccepting();

 private:
  struct Connection {
    int descriptor;
    bool is_local;
  };

  HttpServer(HttpServerOptions options, Handler handler, Overload overload);
  [[nodiscard]] ipam::Expected<void> ListenLocal();
  [[nodiscard]] ipam::Expected<void> ListenTcp();
  void Accept();
  [[nodiscard]] bool AcceptOne(const Connection& listener);
  void StopListening();
  void Work();
  void ServeConnection(const Connection& connection);

  const HttpServerOptions options_;
  const Handler handler_;
  const Overload overload_;
  std::vector<Connection> listeners_;
  int wake_ = -1;  // eventfd that ends Accept
  std::uint64_t socket_inode_ = 0;

  std::mutex mutex_;
  std::condition_variable waiting_changed_;
  std::deque<Connection> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
  std::thread acceptor_;
};

}  // namespace berth::agent
