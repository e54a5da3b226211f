// SPDX-License-Identifier: Apache-2.0
// Sets up OpenSSL and libcurl once.
#include "k8sclient/tls.h"

#include <cstdint>

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/check.h"

namespace berth::k8sclient {

void StartOpenSsl() {
  // OpenSSL's configuration file is for other programs, and may name modules of another version of OpenSSL. OpenSSL
  // need not free memory at exit, because the kernel does so faster. Both save 0.5 ms of a process that lives for 5 ms.
  constexpr std::uint64_t kLess = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT;
  // OpenSSL needs the table of cipher names only for private keys that are encrypted in the old PEM form. berth cannot
  // read these keys, because nobody can enter the password.
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
