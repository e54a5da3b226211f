// SPDX-License-Identifier: Apache-2.0
// Certificates, by OpenSSL.
#include "k8sclient/certificate.h"

#include <memory>
#include <optional>

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "k8sclient/der_reader.h"
#include "k8sclient/tls.h"

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

template <auto kFree>
struct Freed {
  void operator()(auto* object) const { kFree(object); }
};

// The subject of a certificate (RFC 5280, section 4.1): Certificate { tbsCertificate { [0] version, serialNumber,
// signature, issuer, validity, subject, ... Not by d2i_X509, which in OpenSSL 3.0 decodes the public key at once: half
// a millisecond of a process that is started for each CNI call.
std::optional<DerReader> FindSubject(DerReader certificate) {
  constexpr int kVersionTag = 0xa0;
  auto outer = certificate.Next();
  auto fields = outer ? outer->Next() : std::nullopt;
  if (!fields || (fields->AtTag(kVersionTag) && !fields->Next())) return {};
  constexpr int kFieldsBefore = 4;
  for (int field = 0; field < kFieldsBefore; ++field) {
    if (!fields->Next()) return {};
  }
  return fields;
}

using NamePtr = std::unique_ptr<X509_NAME, Freed<X509_NAME_free>>;

NamePtr ReadSubject(std::string_view pem) {
  const std::unique_ptr<BIO, Freed<BIO_free>> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  unsigned char* bytes = nullptr;
  long size = 0;
  if (!bio || PEM_bytes_read_bio(&bytes, &size, nullptr, PEM_STRING_X509, bio.get(), nullptr, nullptr) != 1) return {};
  auto subject = FindSubject(DerReader(bytes, size));
  const unsigned char* at = subject ? subject->at() : nullptr;
  NamePtr name(subject ? d2i_X509_NAME(nullptr, &at, subject->size()) : nullptr);
  OPENSSL_free(bytes);
  return name;
}

}  // namespace

Expected<std::string> CommonName(std::string_view pem) {
  StartOpenSsl();
  const NamePtr subject = ReadSubject(pem);
  if (!subject) return Fail(ErrorCode::kDecode, "not a certificate in PEM form");
  const int index = X509_NAME_get_index_by_NID(subject.get(), NID_commonName, -1);
  if (index < 0) return std::string();
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject.get(), index)));
  if (size < 0) return Fail(ErrorCode::kDecode, "the certificate's common name is not text");
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name;
}

}  // namespace berth::k8sclient
