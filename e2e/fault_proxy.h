// SPDX-License-Identifier: Apache-2.0
// FaultProxy: relays requests of a plugin or agent to the API server, and loses requests or answers as a test decides.
//
// Clients use plain HTTP/1.1 on 127.0.0.1. The proxy uses TLS to the API server, with a client certificate or a token
// and one connection per request. A test decides for each request, counted from 0 since the last Reset, and can send a
// held request later: a write that lands after its sender has given up. The proxy lets watches through, and does not
// record or count them, because their beginning and end belong to no call.
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
  kCutBefore,  // the proxy closes the connection; the server never gets the request
  kCutAfter,   // the server answers; the proxy closes the connection and discards the answer
  kHold,       // the connection stays open without an answer; Release sends the request
  kLate,       // the proxy closes the connection at once; Release sends the request
  kPause,      // the proxy sends the request after Resume, and relays the answer
  kStall,      // the server answers; the connection stays open, and the client gets no answer
};

struct SeenRequest {
  int index = 0;
  std::string method;
  std::string target;  // path and query
  std::string body;
  Fault fault = Fault::kNone;
  int status = 0;  // of the server's answer; 0: no answer yet, or the proxy did not send the request
};

class FaultProxy {
 public:
  // The proxy calls the policy under a lock: the policy must be quick and must not call the proxy.
  using Policy = std::function<Fault(const SeenRequest&)>;

  // Throws std::runtime_error if the credentials are unusable or no port is free.
  explicit FaultProxy(Upstream upstream);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  // "http://127.0.0.1:40123"
  [[nodiscard]] std::string Url() const;

  // Forgets the seen requests and counts from 0 again. Held requests stay held.
  void Reset(Policy policy);

  [[nodiscard]] std::vector<SeenRequest> Seen() const;

  // Waits until a request is held or paused, or an answer is stalled. False: `limit` has passed.
  [[nodiscard]] bool AwaitHeld(std::chrono::milliseconds limit);

  // Sends every held request to the server, in the order of their arrival, and discards the answers. Returns the
  // statuses; 0: no answer.
  std::vector<int> Release();

  // Sends every paused request.
  void Resume();

  // Discards held requests.
  void Drop();

 private:
  void Accept();
  void Serve(int fd);
  // Serves one request. False: the caller must close the connection.
  bool Relay(int fd, std::string_view head, std::string body);
  void Pause();
  [[nodiscard]] SeenRequest Note(std::string_view head, std::string body);
  void NoteStatus(int index, std::uint64_t round, int status);

  const std::string authorization_;  // a header line; empty: a client certificate
  TlsClient server_;
  int listen_fd_ = -1;
  std::uint16_t port_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  Policy policy_ = [](const SeenRequest&) { return Fault::kNone; };
  std::uint64_t round_ = 0;  // number of Resets; keeps a late answer's status away from a newer request
  std::vector<SeenRequest> seen_;
  std::vector<std::string> held_;
  int paused_ = 0;             // requests that wait for Resume
  int stalled_ = 0;            // stalled answers since the last Reset
  std::uint64_t resumes_ = 0;  // number of calls of Resume
  std::vector<int> client_fds_;
  std::vector<std::thread> serving_;
  bool stopping_ = false;

  std::thread accepting_;  // last, because the thread uses the members above
};

// A kubeconfig for Url(). Its user has no credentials, because the proxy has them.
[[nodiscard]] std::string ProxyKubeconfig(std::string_view url, std::string_view user);

}  // namespace berth::e2e
