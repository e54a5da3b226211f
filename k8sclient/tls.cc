// SPDX-License-Identifier: Apache-2.0
// OpenSSL and libcurl, set up once.
#include "k8sclient/tls.h"

#include <cstdint>

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/check.h"

namespace berth::k8sclient {

void StartOpenSsl() {
  // The configuration file is for other programs, and may name modules of another OpenSSL than the one in here; what is
  // freed at exit the kernel frees faster: together half a millisecond of a process that lives for five.
  constexpr std::uint64_t kLess = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT;
  // The table of ciphers by name is for private keys encrypted in the old PEM form, for which nobody can be asked for a
  // password.
  OPENSSL_init_crypto(kLess | OPENSSL_INIT_NO_ADD_ALL_CIPHERS, nullptr);
  OPENSSL_init_ssl(kLess, nullptr);
}

void StartCurl() {
  static const CURLcode kStarted = [] {
    StartOpenSsl();
    return curl_global_init(CURL_GLOBAL_DEFAULT);
  }();
  BERTH_CHECK(kStarted == CURLE_OK);
}

}  // namespace berth::k8sclient
