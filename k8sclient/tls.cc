// SPDX-License-Identifier: Apache-2.0
// TlsContext, by OpenSSL.
#include "k8sclient/tls.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "ipam/check.h"
#include "k8sclient/tls_session.h"
#include "sync/mutex.h"

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;

BioPtr Reader(const std::string& pem) {
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  BERTH_CHECK(bio != nullptr);
  return bio;
}

// A key with a passphrase would make OpenSSL ask on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

Expected<void> TrustAuthorities(const SSL_CTX* context, const std::string& pem) {
  const BioPtr bio = Reader(pem);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(store, certificate);
    X509_free(certificate);
    ++count;
  }
  ERR_clear_error();  // the end of the text is one
  if (count == 0) {
    return Fail(ErrorCode::kDecode,
                "certificate-authority holds no certificate",
                "it must be PEM: -----BEGIN CERTIFICATE-----");
  }
  return {};
}

void FreeChain(STACK_OF(X509) * chain) { sk_X509_pop_free(chain, &X509_free); }

// A client's certificate, its key, and the certificates that lead from it to the authority.
struct ClientIdentity {
  std::unique_ptr<X509, decltype(&X509_free)> certificate{nullptr, &X509_free};
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key{nullptr, &EVP_PKEY_free};
  std::unique_ptr<STACK_OF(X509), decltype(&FreeChain)> chain{nullptr, &FreeChain};  // none: OpenSSL looks for one
};

Expected<ClientIdentity> DecodeIdentity(const CredentialSnapshot& credential) {
  ClientIdentity identity;
  const BioPtr certificates = Reader(credential.certificate_pem);
  identity.certificate.reset(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  while (X509* certificate = PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr)) {
    if (identity.chain == nullptr) identity.chain.reset(sk_X509_new_null());
    sk_X509_push(identity.chain.get(), certificate);
  }
  ERR_clear_error();
  if (identity.certificate == nullptr) {
    return Fail(
        ErrorCode::kDecode, "client-certificate is no certificate", "it must be PEM: -----BEGIN CERTIFICATE-----");
  }
  const BioPtr keys = Reader(credential.key_pem);
  identity.key.reset(PEM_read_bio_PrivateKey(keys.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (identity.key == nullptr) {
    return Fail(ErrorCode::kDecode, "client-key is no private key", "it must be PEM and without a passphrase");
  }
  return identity;
}

Expected<void> PresentCertificate(SSL_CTX* context, const CredentialSnapshot& credential) {
  const Expected<ClientIdentity> identity = DecodeIdentity(credential);
  if (!identity) return std::unexpected(identity.error());
  const bool belongs =
      SSL_CTX_use_cert_and_key(
          context, identity->certificate.get(), identity->key.get(), identity->chain.get(), /*override=*/1) == 1;
  ERR_clear_error();
  if (!belongs) {
    return Fail(
        ErrorCode::kDecode, "client-key does not belong to client-certificate", "give the two that belong together");
  }
  return {};
}

bool IsAddress(const std::string& name) {
  ASN1_OCTET_STRING* const address = a2i_IPADDRESS(name.c_str());
  ASN1_OCTET_STRING_free(address);
  ERR_clear_error();
  return address != nullptr;
}

// After that the server has to prove itself anew, whatever it would still take.
constexpr std::chrono::hours kSessionMax{1};

}  // namespace

// The session that another process left, and the one that is left to the next.
//
// Where there is one, certificates and key are decoded only if the server does not take it: that they can be is known,
// as the session was made with the same ones.
class TlsContext::Resumption {
 public:
  Resumption(CredentialSnapshot credential, const TlsOptions& options, TlsSessionStore store)
      : credential_(std::move(credential)),
        store_(std::move(store)),
        key_(SessionKey(credential_, options)),
        session_(Read(options.now)) {}
  ~Resumption() { OPENSSL_cleanse(key_.data(), key_.size()); }
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;

  [[nodiscard]] bool HasSession() const {
    const sync::Lock lock(mutex_);
    return session_ != nullptr;
  }
  void OfferIn(SSL* ssl) const {
    const sync::Lock lock(mutex_);
    if (session_ != nullptr) SSL_set_session(ssl, session_.get());
  }
  void Forget() {
    const sync::Lock lock(mutex_);
    if (session_ == nullptr) return;
    session_.reset();
    store_.write("");
  }

  void KeepSessionsOf(SSL_CTX* context) {
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, &OnNewSession);
  }
  void DecodeWhenAskedFor(SSL_CTX* context, bool verify) {
    if (verify) SSL_CTX_set_cert_verify_callback(context, &OnServerCertificate, this);
    SSL_CTX_set_cert_cb(context, &OnClientCertificate, this);
  }

 private:
  [[nodiscard]] SessionPtr Read(std::chrono::system_clock::time_point now) const {
    const std::optional<std::string> kept = store_.read();
    SessionPtr session = kept ? UnsealSession(key_, *kept) : nullptr;
    if (session == nullptr || SSL_SESSION_is_resumable(session.get()) != 1) return nullptr;
    const auto made = std::chrono::system_clock::from_time_t(SSL_SESSION_get_time(session.get()));
    return made <= now && now - made <= kSessionMax ? std::move(session) : nullptr;
  }

  // The server has sent a ticket. OpenSSL's callback; 0: the session is not kept by us.
  static int OnNewSession(SSL* ssl, SSL_SESSION* session) {
    const auto* const self = static_cast<const Resumption*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    // One that was resumed has proved nothing, so its successor may not live any longer than itself. Before TLS 1.3 a
    // ticket would also open what was said before.
    if (SSL_session_reused(ssl) == 1 || SSL_version(ssl) != TLS1_3_VERSION) return 0;
    const std::string sealed = SealSession(self->key_, session);
    if (!sealed.empty()) self->store_.write(sealed);
    return 0;
  }
  static int OnServerCertificate(X509_STORE_CTX* chain, void* self) {
    const auto* const ssl =
        static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const std::string& authorities = static_cast<Resumption*>(self)->credential_.certificate_authority_pem;
    if (!TrustAuthorities(SSL_get_SSL_CTX(ssl), authorities)) return 0;
    return X509_verify_cert(chain);
  }
  static int OnClientCertificate(SSL* ssl, void* self) {
    const Expected<ClientIdentity> identity = DecodeIdentity(static_cast<Resumption*>(self)->credential_);
    if (!identity) return 0;
    return SSL_use_cert_and_key(
        ssl, identity->certificate.get(), identity->key.get(), identity->chain.get(), /*override=*/1);
  }

  const CredentialSnapshot credential_;
  const TlsSessionStore store_;
  std::string key_;
  mutable sync::Mutex mutex_;
  SessionPtr session_ BERTH_GUARDED_BY(mutex_);  // none: whole handshakes
};

void StartOpenSsl() {
  // The configuration file is for other programs, and may name modules of another OpenSSL than the one in here; what is
  // freed at exit the kernel frees faster: together half a millisecond of a process that lives for five.
  constexpr std::uint64_t kLess = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT;
  // The table of ciphers by name is for private keys encrypted in the old PEM form, for which nobody can be asked for a
  // password.
  OPENSSL_init_crypto(kLess | OPENSSL_INIT_NO_ADD_ALL_CIPHERS, nullptr);
  OPENSSL_init_ssl(kLess, nullptr);
}

TlsContext::TlsContext() {
  StartOpenSsl();
  context_ = SSL_CTX_new(TLS_client_method());
  BERTH_CHECK(context_ != nullptr);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Expected<std::shared_ptr<const TlsContext>> TlsContext::Make(const CredentialSnapshot& credential,
                                                             const TlsOptions& options) {
  std::shared_ptr<TlsContext> tls(new TlsContext());
  SSL_CTX* const context = tls->context_;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  tls->verify_ = !options.insecure_skip_verify;
  if (tls->verify_) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    // Like Go: who is listed is trusted, also an authority that another one issued.
    X509_STORE_set_flags(SSL_CTX_get_cert_store(context), X509_V_FLAG_PARTIAL_CHAIN);
  }
  if (options.sessions && !credential.key_pem.empty()) {
    tls->resumption_ = std::make_unique<Resumption>(credential, options, *options.sessions);
    tls->resumption_->KeepSessionsOf(context);
    if (tls->HasSession()) {
      tls->resumption_->DecodeWhenAskedFor(context, tls->verify_);
      return tls;
    }
  }
  if (tls->verify_) {
    const Expected<void> trusted = TrustAuthorities(context, credential.certificate_authority_pem);
    if (!trusted) return std::unexpected(trusted.error());
  }
  if (!credential.certificate_pem.empty()) {
    const Expected<void> presented = PresentCertificate(context, credential);
    if (!presented) return std::unexpected(presented.error());
  }
  return tls;
}

bool TlsContext::HasSession() const { return resumption_ && resumption_->HasSession(); }

void TlsContext::ForgetSession() const {
  if (resumption_) resumption_->Forget();
}

ssl_st* TlsContext::NewConnection(const std::string& name) const {
  SSL* const ssl = SSL_new(context_);
  BERTH_CHECK(ssl != nullptr);
  if (resumption_) resumption_->OfferIn(ssl);
  const bool address = IsAddress(name);
  if (!address) SSL_set_tlsext_host_name(ssl, name.c_str());
  if (!verify_) return ssl;
  X509_VERIFY_PARAM* const rules = SSL_get0_param(ssl);
  // Like Go: only subject alternative names count, and "*" stands for a whole label.
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const int accepted = address ? X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str())
                               : X509_VERIFY_PARAM_set1_host(rules, name.c_str(), name.size());
  BERTH_CHECK(accepted == 1);
  return ssl;
}

}  // namespace berth::k8sclient
