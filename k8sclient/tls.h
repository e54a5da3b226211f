// SPDX-License-Identifier: Apache-2.0
// TlsContext: whom we trust and who we are, ready for any number of connections.
//
// Made once per credential: setting it up costs more than a millisecond. OpenSSL's configuration file is not read.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ipam/error.h"
#include "k8sclient/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace berth::k8sclient {

// Sets OpenSSL up for this process without its configuration file. Whoever uses OpenSSL first decides that, even for a
// digest: so programs that are started often call this before anything else. Any number of times, any thread.
void StartOpenSsl();

// Where a process leaves a TLS 1.3 session for the next one to resume (RFC 8446, 2.2), which saves both sides their
// certificates: the keys, signatures and chains. What is kept is sealed with the client's key and all else that the
// session was made with: it says nothing to who does not have the key, and nobody else can have made it. Both may fail
// silently, and what is read may be anything.
struct TlsSessionStore {
  std::function<std::optional<std::string>()> read;
  std::function<void(const std::string& session)> write;  // empty: there is none any more
};

struct TlsOptions {
  bool insecure_skip_verify = false;
  // Of one server only; none, or a credential without a key: every handshake is a whole one.
  std::optional<TlsSessionStore> sessions = {};
  // Host, port and the name it has to prove: part of what a session belongs to.
  std::string server = {};
  std::chrono::system_clock::time_point now = {};
};

class TlsContext {
 public:
  // Errors: kDecode (an authority, a certificate or a key is not PEM, or key and certificate do not belong together).
  [[nodiscard]] static ipam::Expected<std::shared_ptr<const TlsContext>> Make(const CredentialSnapshot& credential,
                                                                              const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A client's end of one connection, to be given to the caller; it will accept only a server that proves to be `name`
  // (a DNS name or an address). The context must outlive it.
  [[nodiscard]] ssl_st* NewConnection(const std::string& name) const;

  // Whether a connection would offer a session of another process. The handshake may fail for it: servers may take what
  // they do not understand for an attack. Then it is to be forgotten, here and by others. Any thread.
  [[nodiscard]] bool HasSession() const;
  void ForgetSession() const;

 private:
  class Resumption;

  TlsContext();
  ssl_ctx_st* context_;
  bool verify_ = true;
  std::unique_ptr<Resumption> resumption_;  // none: no session is kept
};

}  // namespace berth::k8sclient
