// SPDX-License-Identifier: Apache-2.0
// CurlHandles: libcurl's two objects for one connection, and whether that connection may be used again.
#pragma once

#include <poll.h>

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/check.h"

namespace berth::k8sclient {

// libcurl's two objects: the transfer's options, and the loop that drives it and keeps its connection.
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

  // Without waiting: false if the peer has closed the kept connection, or sent something that nobody asked for.
  [[nodiscard]] bool IsQuiet() const {
    pollfd polled{.fd = kept_, .events = POLLIN, .revents = 0};
    return kept_ != CURL_SOCKET_BAD && poll(&polled, 1, 0) == 0;
  }

  // A transfer has ended, or is to. What is not complete loses its connection here.
  void End() {
    if (curl_easy_getinfo(easy_, CURLINFO_ACTIVESOCKET, &kept_) != CURLE_OK) kept_ = CURL_SOCKET_BAD;
    if (has_more_) kept_ = CURL_SOCKET_BAD;
    curl_multi_remove_handle(multi_, easy_);
  }

  // A piece of an answer was read. What TLS has decrypted beyond it nobody sees at the socket any more: if this is the
  // end of the answer, nobody asked for it.
  void LookForMore() {
    const curl_tlssessioninfo* tls = nullptr;
    has_more_ = curl_easy_getinfo(easy_, CURLINFO_TLS_SSL_PTR, &tls) == CURLE_OK && tls->internals != nullptr &&
                SSL_pending(static_cast<SSL*>(tls->internals)) > 0;
  }

 private:
  CURL* const easy_;
  CURLM* const multi_;
  curl_socket_t kept_ = CURL_SOCKET_BAD;  // of the connection that may still be open; libcurl's own
  bool has_more_ = false;                 // behind the last piece that was read
};

}  // namespace berth::k8sclient
