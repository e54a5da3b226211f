// SPDX-License-Identifier: Apache-2.0
// FaultProxy: stands between a plugin and the API server, and loses requests or answers where a test says so.
//
// Plain HTTP/1.1 on 127.0.0.1 towards the plugin; towards the API server TLS with a client certificate or a token, one
// connection for each request. A test decides request by request, counted from 0 since the last Reset, and can let a
// held request arrive later: the commit that comes after everybody gave up. Watches are let through, and neither seen
// nor counted: when they begin and end is no part of a call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "e2e/tls_client.h"

namespace berth::e2e {

enum class Fault : std::uint8_t {
  kNone,
  kCutBefore,  // the connection ends; the server never sees the request
  kCutAfter,   // the server has answered; the connection ends before the answer gets through
  kHold,       // nothing happens, and the connection stays; the request arrives at Release
  kLate,       // the connection ends at once; the request arrives at Release
  kPause,      // it waits for Resume and then goes its way
  kStall,      // the server has answered; the connection stays, and the answer never comes
};

struct SeenRequest {
  int index = 0;
  std::string method;
  std::string target;  // path and query
  std::string body;
  Fault fault = Fault::kNone;
  int status = 0;  // of the server's answer; 0: it was not asked, or has not answered yet
};

class FaultProxy {
 public:
  // Called under a lock: it must be quick and must not call the proxy.
  using Policy = std::function<Fault(const SeenRequest&)>;

  // Throws std::runtime_error if the credentials are unusable or no port is free.
  explicit FaultProxy(Upstream upstream);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  // "http://127.0.0.1:40123"
  [[nodiscard]] std::string Url() const;

  // Forgets what was seen and counts from 0 again. Held requests stay held.
  void Reset(Policy policy);

  [[nodiscard]] std::vector<SeenRequest> Seen() const;

  // Waits until a request is held or paused, or an answer stalled. False: none came in time.
  [[nodiscard]] bool AwaitHeld(std::chrono::milliseconds limit);

  // Sends every held request to the server, in the order in which they came, and throws the answers away. Returns their
  // statuses; 0: no answer.
  std::vector<int> Release();

  // Lets every paused request go on.
  void Resume();

  // Throws held requests away.
  void Drop();

 private:
  void Accept();
  void Serve(int fd);
  // One request; false: the connection is to be closed.
  bool Relay(int fd, std::string_view head, std::string body);
  void Pause();
  [[nodiscard]] SeenRequest Note(std::string_view head, std::string body);
  void NoteStatus(int index, std::uint64_t round, int status);

  const std::string authorization_;  // a header line; empty: the client certificate will do
  TlsClient server_;
  int listen_fd_ = -1;
  std::uint16_t port_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  Policy policy_ = [](const SeenRequest&) { return Fault::kNone; };
  std::uint64_t round_ = 0;  // counts Reset, so that a late answer is not noted at the wrong request
  std::vector<SeenRequest> seen_;
  std::vector<std::string> held_;
  int paused_ = 0;             // requests that wait for Resume
  int stalled_ = 0;            // answers that were kept, since the last Reset
  std::uint64_t resumes_ = 0;  // counts Resume
  std::vector<int> client_fds_;
  std::vector<std::thread> serving_;
  bool stopping_ = false;

  std::thread accepting_;  // last: it uses all of the above
};

// A kubeconfig for Url(): the proxy has the credentials, so it names a user without any.
[[nodiscard]] std::string ProxyKubeconfig(std::string_view url, std::string_view user);

}  // namespace berth::e2e
