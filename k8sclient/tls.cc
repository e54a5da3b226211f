// SPDX-License-Identifier: Apache-2.0
// TlsContext, by OpenSSL.
#include "k8sclient/tls.h"

#include <cstdint>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "ipam/check.h"

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
  // Like Go: who is listed is trusted, also an authority that another one issued.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  return {};
}

Expected<void> PresentCertificate(SSL_CTX* context, const CredentialSnapshot& credential) {
  const BioPtr certificates = Reader(credential.certificate_pem);
  int count = 0;
  while (X509* certificate = PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr)) {
    // The first is ours, the others lead to the authority.
    const bool taken = count == 0 ? SSL_CTX_use_certificate(context, certificate) == 1
                                  : SSL_CTX_add1_chain_cert(context, certificate) == 1;
    X509_free(certificate);
    if (!taken) break;
    ++count;
  }
  ERR_clear_error();
  if (count == 0) {
    return Fail(
        ErrorCode::kDecode, "client-certificate is no certificate", "it must be PEM: -----BEGIN CERTIFICATE-----");
  }
  const BioPtr keys = Reader(credential.key_pem);
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(keys.get(), nullptr, &NoPassphrase, nullptr);
  const bool readable = key != nullptr;
  const bool belongs = readable && SSL_CTX_use_PrivateKey(context, key) == 1;
  EVP_PKEY_free(key);
  ERR_clear_error();
  if (!readable) {
    return Fail(ErrorCode::kDecode, "client-key is no private key", "it must be PEM and without a passphrase");
  }
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

}  // namespace

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
                                                             bool insecure_skip_verify) {
  std::shared_ptr<TlsContext> tls(new TlsContext());
  SSL_CTX_set_min_proto_version(tls->context_, TLS1_2_VERSION);
  SSL_CTX_set_mode(tls->context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  tls->verify_ = !insecure_skip_verify;
  if (tls->verify_) {
    SSL_CTX_set_verify(tls->context_, SSL_VERIFY_PEER, nullptr);
    const Expected<void> trusted = TrustAuthorities(tls->context_, credential.certificate_authority_pem);
    if (!trusted) return std::unexpected(trusted.error());
  }
  if (!credential.certificate_pem.empty()) {
    const Expected<void> presented = PresentCertificate(tls->context_, credential);
    if (!presented) return std::unexpected(presented.error());
  }
  return tls;
}

ssl_st* TlsContext::NewConnection(const std::string& name) const {
  SSL* const ssl = SSL_new(context_);
  BERTH_CHECK(ssl != nullptr);
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
