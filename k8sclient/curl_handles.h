// SPDX-License-Identifier: Apache-2.0
// CurlHandles: libcurl's two handles of one connection, and whether the connection may be used again.
#pragma once

#include <poll.h>

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/check.h"

namespace berth::k8sclient {

// The easy handle has the options of a transfer. The multi handle drives the transfer and keeps its connection.
class CurlHandles {
 public:
  CurlHandles() : easy_(curl_easy_init()), multi_(curl_multi_init()) {
    BERTH_CHECK(easy_ != nullptr && multi_ != nullptr);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 1L);
  }
  ~CurlHandles() {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }
  CurlHandles(const CurlHandles&) = delete;
  CurlHandles& operator=(const CurlHandles&) = delete;

  [[nodiscard]] CURL* easy() const { return easy_; }
  [[nodiscard]] CURLM* multi() const { return multi_; }

  // Never waits. False if no connection is kept, or if its peer has closed it or sent data without a request.
  [[nodiscard]] bool IsReusable() const {
    pollfd polled{.fd = kept_socket_, .events = POLLIN, .revents = 0};
    return kept_socket_ != CURL_SOCKET_BAD && poll(&polled, 1, 0) == 0;
  }

  // Ends a transfer. libcurl closes the connection of an incomplete transfer.
  void End() {
    if (curl_easy_getinfo(easy_, CURLINFO_ACTIVESOCKET, &kept_socket_) != CURLE_OK) kept_socket_ = CURL_SOCKET_BAD;
    if (has_buffered_bytes_) kept_socket_ = CURL_SOCKET_BAD;
    curl_multi_remove_handle(multi_, easy_);
  }

  // Notes whether OpenSSL has decrypted bytes after the piece of an answer that libcurl has just read; poll does not
  // see such bytes. If the piece ends the answer, the peer sent these bytes without a request.
  void NoteBufferedBytes() {
    const curl_tlssessioninfo* tls = nullptr;
    has_buffered_bytes_ = curl_easy_getinfo(easy_, CURLINFO_TLS_SSL_PTR, &tls) == CURLE_OK &&
                          tls->internals != nullptr && SSL_pending(static_cast<SSL*>(tls->internals)) > 0;
  }

 private:
  CURL* const easy_;
  CURLM* const multi_;
  curl_socket_t kept_socket_ = CURL_SOCKET_BAD;  // socket of the connection that may still be open; owned by libcurl
  bool has_buffered_bytes_ = false;              // OpenSSL has bytes after the last piece
};

}  // namespace berth::k8sclient
