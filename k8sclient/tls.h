// SPDX-License-Identifier: Apache-2.0
// TlsContext: whom we trust and who we are, ready for any number of connections.
//
// Made once per credential: setting it up costs more than a millisecond. OpenSSL's configuration file is not read.
#pragma once

#include <memory>
#include <string>

#include "ipam/error.h"
#include "k8sclient/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace berth::k8sclient {

// Sets OpenSSL up for this process without its configuration file. Whoever uses OpenSSL first decides that, even for a
// digest: so programs that are started often call this before anything else. Any number of times, any thread.
void StartOpenSsl();

class TlsContext {
 public:
  // Errors: kDecode (an authority, a certificate or a key is not PEM, or key and certificate do not belong together).
  [[nodiscard]] static ipam::Expected<std::shared_ptr<const TlsContext>> Make(const CredentialSnapshot& credential,
                                                                              bool insecure_skip_verify);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A client's end of one connection, to be given to the caller; it will accept only a server that proves to be `name`
  // (a DNS name or an address).
  [[nodiscard]] ssl_st* NewConnection(const std::string& name) const;

 private:
  TlsContext();
  ssl_ctx_st* context_;
  bool verify_ = true;
};

}  // namespace berth::k8sclient
