// SPDX-License-Identifier: Apache-2.0
// TLS sessions as sealed text: what one process leaves to the next (TlsSessionStore).
#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

#include "k8sclient/tls.h"

namespace berth::k8sclient {

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SessionPtr = std::unique_ptr<SSL_SESSION, FreeSession>;

// What a session is sealed with (AES-256-GCM): only who has the same key, certificate and authorities, and means the
// same server, can open it. Resuming proves and asks for nothing anew, so nobody else may.
[[nodiscard]] std::string SessionKey(const CredentialSnapshot& credential, const TlsOptions& options);

// Empty: it cannot be done.
[[nodiscard]] std::string SealSession(const std::string& key, const SSL_SESSION* session);
// Null: sealed with another key, or not what was sealed.
[[nodiscard]] SessionPtr UnsealSession(const std::string& key, const std::string& sealed);

}  // namespace berth::k8sclient
