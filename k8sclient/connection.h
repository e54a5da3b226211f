// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the API server, on which libcurl sends one HTTP/1.1 request at a time.
//
// A Connection connects when a request needs it, and keeps the connection for the next request. A Connection never
// sends a request twice: if a kept connection turns out to be dead, libcurl would send the request again, but
// Connection stops libcurl before that.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <curl/curl.h>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/credentials.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {

// The server to connect to, and how to connect.
struct Endpoint {
  ServerUrl server;
  std::string server_name = {};  // the name that the server's certificate must prove
  bool insecure_skip_verify = false;
  std::optional<ServerUrl> proxy = {};  // http, https or socks5
  std::string user_agent = {};
  std::chrono::milliseconds connect_max;    // TCP and proxy
  std::chrono::milliseconds handshake_max;  // TLS with the server, after connecting
};

// If a server is silent for at least this long until a time limit passes, HttpApi also closes its idle connections. A
// shorter silence proves nothing: a busy server may need as long for its answer.
inline constexpr std::chrono::seconds kSilentFrom{4};

struct ExchangeResult {
  Expected<Response> response;
  // The connection broke after the request was sent, and options.body got nothing: the caller may send a read again.
  bool may_repeat_read = false;
  // A time limit passed, and no byte of an answer had come for kSilentFrom.
  bool was_silent = false;
};

class Connection {
 public:
  // Opens no connection. endpoint must outlive this.
  Connection(const Endpoint& endpoint, std::shared_ptr<const TlsTexts> texts);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One thread at a time. `headers`: those of the credentials. Errors: those of Api::Call and Api::Watch.
  [[nodiscard]] ExchangeResult Exchange(const Request& request, const std::vector<std::string>& headers,
                                        const CallOptions& options);

  [[nodiscard]] const std::shared_ptr<const TlsTexts>& tls() const { return tls_; }

 private:
  class Transfer;

  // Never waits. False if no connection is kept, or if its peer has closed it or sent data without a request.
  [[nodiscard]] bool IsReusable() const;
  // Notes whether OpenSSL has decrypted bytes after the piece of an answer that libcurl has just read; poll does not
  // see such bytes. If the piece ends the answer, the peer sent these bytes without a request.
  void NoteBufferedBytes();

  const Endpoint& endpoint_;
  const std::shared_ptr<const TlsTexts> tls_;
  CURL* const easy_;                             // has the options of a transfer
  CURLM* const multi_;                           // drives the transfer and keeps its connection
  curl_socket_t kept_socket_ = CURL_SOCKET_BAD;  // socket of the connection that may still be open; owned by libcurl
  bool has_buffered_bytes_ = false;              // OpenSSL has bytes after the last piece
};

}  // namespace berth::k8sclient
