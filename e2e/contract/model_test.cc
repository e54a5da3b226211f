// SPDX-License-Identifier: Apache-2.0
// Runs the contract's cases on the model that unit tests use.
#include <string>

#include <gtest/gtest.h>

#include "e2e/contract/contract.h"
#include "k8sclient/testing/model_api.h"

namespace berth::e2e {
namespace {

class ModelContract : public ::testing::TestWithParam<ContractCase> {};

TEST_P(ModelContract, IsKept) {
  k8sclient::testing::ModelApi api;
  ContractClient client(api, "c1");
  EXPECT_EQ(GetParam().happens(client), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(Model, ModelContract, ::testing::ValuesIn(ContractCases()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::e2e
