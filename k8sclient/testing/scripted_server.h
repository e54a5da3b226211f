// SPDX-License-Identifier: Apache-2.0
// ScriptedServer: an HTTP server on 127.0.0.1 that sends exactly the bytes that a test's script sends.
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
  bool tls_resumed = false;      // the handshake resumed an earlier session
};

// One accepted connection, which a script controls.
class Peer {
 public:
  virtual ~Peer() = default;
  // Waits for a whole request. Nothing: the client has closed the connection.
  [[nodiscard]] virtual std::optional<ReceivedRequest> ReadRequest() = 0;
  // Waits for `count` bytes. Returns fewer if the client has closed the connection.
  [[nodiscard]] virtual std::string ReadBytes(std::size_t count) = 0;
  virtual void Send(std::string_view bytes) = 0;
  // Waits for `duration`, or until the client has closed the connection.
  virtual void Pause(std::chrono::milliseconds duration) = 0;
  // Closes the connection with a RST, like a server that has crashed or was replaced.
  virtual void Reset() = 0;
  // Closes the TCP connection in order, but not TLS, as an attacker between client and server could do.
  virtual void Cut() = 0;
  // Waits until the client has closed the connection, and discards everything that the client sends.
  virtual void AwaitClose() = 0;
  // Copies bytes to and from a server on 127.0.0.1 until one side closes, as a proxy does.
  virtual void Relay(int port) = 0;
  // 0 for the first connection that the server accepted.
  [[nodiscard]] virtual int index() const = 0;

  // Sends a whole answer with Content-Length. extra_headers: lines with their "\r\n".
  void Answer(int status, std::string_view body, std::string_view extra_headers = {});
};

// Runs for each connection, in a thread of its own. When the script returns, the server closes the connection in order.
using Script = std::function<void(Peer& peer)>;

class ScriptedServer {
 public:
  struct Options {
    std::optional<Identity> tls = {};       // HTTPS with this certificate
    std::string client_authority_pem = {};  // ask for a client certificate of this authority
    bool fails_resumption = false;          // send tickets, and fail a handshake with a ticket
  };
  ScriptedServer(Options options, Script script);
  explicit ScriptedServer(Script script);
  // Closes the open connections, and waits for the scripts to end.
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;  // "https://127.0.0.1:PORT"
  [[nodiscard]] int connections() const { return connections_; }
  // Waits until the script of connection `index` has ended and the connection is closed.
  void AwaitEnd(int index);

 private:
  void Accept();
  // Joins the threads of ended scripts. A test may make thousands of connections, and a thread uses memory until it is
  // joined.
  void JoinEnded();
  void Serve(int socket, int index);

  const Options options_;
  const Script script_;
  std::shared_ptr<void> tls_context_;
  int port_ = 0;
  int listener_ = -1;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::list<int> open_;  // guarded by mutex_: sockets of running scripts
  std::set<int> ended_;  // guarded by mutex_: indexes of connections that are closed
  std::condition_variable ended_changed_;
  std::map<int, std::thread> scripts_;  // by index; used by the accepting thread, and after its end by the destructor
  std::thread acceptor_;
};

// An answer with Content-Length, as text.
[[nodiscard]] std::string HttpAnswer(int status, std::string_view body, std::string_view extra_headers = {});

// A port without a listener: the kernel refuses a connection to it.
[[nodiscard]] int RefusingPort();

}  // namespace berth::k8sclient::testing
