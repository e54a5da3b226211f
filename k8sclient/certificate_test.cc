// SPDX-License-Identifier: Apache-2.0
// CommonName: the first certificate counts, text before it is skipped, and a key is an error.
#include "k8sclient/certificate.h"

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

}  // namespace
}  // namespace berth::k8sclient
