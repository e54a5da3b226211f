// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, with OpenSSL.
#include "k8sclient/testing/test_certificates.h"

#include <atomic>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace berth::k8sclient::testing {
namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using CertificatePtr = std::unique_ptr<X509, decltype(&X509_free)>;

template <typename Write>
std::string Pem(const Write& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  BERTH_CHECK(write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  BERTH_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

CertificatePtr NewCertificate(const std::string& common_name, EVP_PKEY* key, std::chrono::seconds valid) {
  static std::atomic<long> serial = 1;
  CertificatePtr certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), static_cast<long>(valid.count()));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()),
                             "CN",
                             MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()),
                             -1,
                             -1,
                             0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

}  // namespace

struct Authority::Parts {
  KeyPtr key{EVP_EC_gen("P-256"), &EVP_PKEY_free};
  CertificatePtr certificate{nullptr, &X509_free};
  std::string pem;
};

Authority::Authority(const std::string& name) : parts_(std::make_unique<Parts>()) {
  parts_->certificate = NewCertificate(name, parts_->key.get(), std::chrono::hours(1));
  X509* certificate = parts_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  BERTH_CHECK(X509_sign(certificate, parts_->key.get(), EVP_sha256()) > 0);
  parts_->pem = Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

Authority::~Authority() = default;

const std::string& Authority::certificate_pem() const { return parts_->pem; }

Identity Authority::Issue(const CertificateOptions& options) const {
  const KeyPtr key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const CertificatePtr certificate = NewCertificate(options.common_name, key.get(), options.valid_from_now);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(parts_->certificate.get()));
  std::string names;
  for (const std::string& name : options.names) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) {
    AddExtension(certificate.get(), parts_->certificate.get(), NID_subject_alt_name, names);
  }
  BERTH_CHECK(X509_sign(certificate.get(), parts_->key.get(), EVP_sha256()) > 0);
  return {.certificate_pem = Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); }),
          .key_pem = Pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace berth::k8sclient::testing
