// SPDX-License-Identifier: Apache-2.0
// CommonName: found without decoding the rest, and never by reading behind what is there.
#include "k8sclient/certificate.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>

#include "k8sclient/testing/test_certificates.h"

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;

std::string Certificate(const std::string& name) {
  return testing::Authority("CA").Issue({.common_name = name}).certificate_pem;
}

std::string DerOf(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                      &BIO_free);
  unsigned char* bytes = nullptr;
  long size = 0;
  EXPECT_EQ(PEM_bytes_read_bio(&bytes, &size, nullptr, PEM_STRING_X509, bio.get(), nullptr, nullptr), 1);
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

std::string PemOf(const std::string& der) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio(bio.get(),
                PEM_STRING_X509,
                "",
                reinterpret_cast<const unsigned char*>(der.data()),
                static_cast<long>(der.size()));
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

TEST(CommonName, IsThatOfTheFirstCertificateAndNotOfItsIssuer) {
  EXPECT_EQ(CommonName(Certificate("system:node:n1") + Certificate("another")), "system:node:n1");
}

TEST(CommonName, IsFoundBehindOtherText) { EXPECT_EQ(CommonName("subject=/CN=x\n" + Certificate("n1")), "n1"); }

TEST(CommonName, OfAKeyIsAnError) {
  const auto name = CommonName(testing::Authority("CA").Issue({.common_name = "n1"}).key_pem);
  ASSERT_FALSE(name.has_value());
  EXPECT_EQ(name.error().code, ErrorCode::kDecode);
}

TEST(CommonName, OfACertificateCutAnywhereIsAnErrorOrTheName) {
  const std::string der = DerOf(Certificate("system:node:n1"));
  for (std::size_t size = 0; size < der.size(); ++size) {
    const auto name = CommonName(PemOf(der.substr(0, size)));
    ASSERT_FALSE(name.has_value()) << "cut to " << size << " bytes: " << *name;
  }
}

TEST(CommonName, OfACertificateWithAnyByteChangedIsReadWithinItsBounds) {
  const std::string der = DerOf(Certificate("system:node:n1"));
  std::size_t refused = 0;
  for (std::size_t at = 0; at < der.size(); ++at) {
    for (const char other : {'\x00', '\x30', '\x7f', '\x80', '\x84', '\xff'}) {
      std::string changed = der;
      changed[at] = other;
      if (!CommonName(PemOf(changed))) ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace berth::k8sclient
