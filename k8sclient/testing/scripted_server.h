// SPDX-License-Identifier: Apache-2.0
// ScriptedServer: an HTTP server on 127.0.0.1 that does exactly what a test says, byte by byte, good or bad.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "k8sclient/testing/test_certificates.h"

namespace berth::k8sclient::testing {

struct ReceivedRequest {
  std::string method;
  std::string target;                          // path and query as sent
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string peer_common_name;  // of the client certificate, if one was sent
  bool tls_resumed = false;      // the handshake took up an earlier session
};

// One accepted connection, in a script's hands.
class Peer {
 public:
  virtual ~Peer() = default;
  // Waits for a whole request; nothing if the client closed the connection.
  [[nodiscard]] virtual std::optional<ReceivedRequest> ReadRequest() = 0;
  // Waits for that many bytes; fewer if the client closed the connection.
  [[nodiscard]] virtual std::string ReadBytes(std::size_t count) = 0;
  virtual void Send(std::string_view bytes) = 0;
  // Waits for so long, or until the client has closed the connection.
  virtual void Pause(std::chrono::milliseconds duration) = 0;
  // Closes with a RST, as a crashed or overtaken server does.
  virtual void Reset() = 0;
  // Closes the TCP connection in order, but not TLS: whoever cuts a line could do that.
  virtual void Cut() = 0;
  // Waits until the client has closed the connection; what it sends until then is thrown away.
  virtual void AwaitClose() = 0;
  // Copies bytes to and from a server on 127.0.0.1 until one side closes, as a proxy does.
  virtual void Relay(int port) = 0;
  // 0 for the first connection that the server accepted.
  [[nodiscard]] virtual int index() const = 0;

  // A whole answer with Content-Length; extra_headers: lines with their "\r\n".
  void Answer(int status, std::string_view body, std::string_view extra_headers = {});
};

// Runs for each connection, in a thread of its own; the connection is closed, in order, when it returns.
using Script = std::function<void(Peer& peer)>;

class ScriptedServer {
 public:
  struct Options {
    std::optional<Identity> tls = {};       // HTTPS with this certificate
    std::string client_authority_pem = {};  // ask for a client certificate issued by this one
    bool fails_resumption = false;          // sends tickets, and fails the handshake of who comes with one
  };
  ScriptedServer(Options options, Script script);
  explicit ScriptedServer(Script script);
  // Breaks what is still open and waits for the scripts.
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;  // "https://127.0.0.1:PORT"
  [[nodiscard]] int connections() const { return connections_; }
  // Waits until the script of that connection has ended and the connection is closed.
  void AwaitEnd(int index);

 private:
  void Accept();
  // A test may make thousands of connections, and each thread has memory until somebody joins it.
  void JoinEnded();
  void Serve(int socket, int index);

  const Options options_;
  const Script script_;
  std::shared_ptr<void> tls_context_;
  int port_ = 0;
  int listener_ = -1;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::list<int> open_;  // guarded by mutex_: sockets that scripts are at
  std::set<int> ended_;  // guarded by mutex_: indexes of connections that are closed
  std::condition_variable ended_changed_;
  std::map<int, std::thread> scripts_;  // by index; touched by the accepting thread, and after its end
  std::thread acceptor_;
};

// An answer with Content-Length, as text.
[[nodiscard]] std::string HttpAnswer(int status, std::string_view body, std::string_view extra_headers = {});

// The port of a listener that was closed again: a connection to it is refused.
[[nodiscard]] int RefusingPort();

}  // namespace berth::k8sclient::testing
