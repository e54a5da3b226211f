// SPDX-License-Identifier: Apache-2.0
// Runs the contract's cases on a real API server, with which the models must agree. e2e/k8sclient.sh runs this test.
#include "e2e/contract/contract.h"

#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "real_server.h"

namespace berth::e2e {
namespace {

class RealContract : public k8sclient::RealServer, public ::testing::WithParamInterface<ContractCase> {};

TEST_P(RealContract, IsKept) {
  // A space's name of at most 19 characters that no other run uses.
  static int count = 0;
  ContractClient client(api(), "c" + std::to_string(++count) + "-" + std::to_string(::getpid()));
  EXPECT_EQ(GetParam().happens(client), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(ApiServer, RealContract, ::testing::ValuesIn(ContractCases()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::e2e
