// SPDX-License-Identifier: Apache-2.0
// Certificates, with OpenSSL.
#include "k8sclient/certificate.h"

#include <memory>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "k8sclient/freed.h"
#include "k8sclient/tls.h"

namespace berth::k8sclient {
namespace {}  // namespace

Expected<std::string> CommonName(std::string_view pem) {
  StartOpenSsl();
  const std::unique_ptr<BIO, Freed<BIO_free>> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const std::unique_ptr<X509, Freed<X509_free>> certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!certificate) return Fail(ErrorCode::kDecode, "not a certificate in PEM form");
  const X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return std::string();
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
  if (size < 0) return Fail(ErrorCode::kDecode, "the certificate's common name is not text");
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name;
}

}  // namespace berth::k8sclient
