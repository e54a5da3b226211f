// SPDX-License-Identifier: Apache-2.0
// Base64, and the name in a certificate: the first certificate counts, text before it is skipped, a key is an error.
#include "k8sclient/openssl.h"

#include <string>

#include <gtest/gtest.h>

#include "k8sclient/testing/test_certificates.h"

namespace berth::k8sclient {
namespace {

std::string Certificate(const std::string& name) {
  return testing::Authority("CA").Issue({.common_name = name}).certificate_pem;
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

struct Base64Case {
  const char* name;
  const char* text;
  const char* want;  // null: refused
};
class Base64Table : public ::testing::TestWithParam<Base64Case> {};

TEST_P(Base64Table, DecodesOrRefuses) {
  const auto bytes = DecodeBase64(GetParam().text);
  ASSERT_EQ(bytes.has_value(), GetParam().want != nullptr);
  if (GetParam().want != nullptr) {
    EXPECT_EQ(*bytes, GetParam().want);
  }
}

constexpr Base64Case kBase64Cases[] = {
    {"Empty", "", ""},
    {"NoPadding", "YWJj", "abc"},
    {"OnePadding", "YWI=", "ab"},
    {"TwoPaddings", "YQ==", "a"},
    {"LineBreaks", " YW\r\nJj\n", "abc"},
    {"PaddingMissing", "YQ", nullptr},
    {"PaddingInside", "YQ==YWJj", nullptr},
    {"PaddingOnly", "====", nullptr},
    {"OnePaddingOnly", "=", nullptr},
    {"UrlAlphabet", "_-_-", nullptr},
    {"Foreign", "YW*j", nullptr},
    {"DashBehind", "YQ==-", nullptr},
};
INSTANTIATE_TEST_SUITE_P(Table, Base64Table, ::testing::ValuesIn(kBase64Cases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Base64, EveryByteSurvives) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    const auto decoded = DecodeBase64(EncodeBase64(bytes));
    ASSERT_TRUE(decoded.has_value());
    ASSERT_EQ(*decoded, bytes);
    bytes += static_cast<char>(i);
  }
}

}  // namespace
}  // namespace berth::k8sclient
