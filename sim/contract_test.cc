// SPDX-License-Identifier: Apache-2.0
// Runs the contract of an API server (e2e/contract) on the simulated API server, whose cache lags.
#include "e2e/contract/contract.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "sim/api_server.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

class SimulatedContract : public ::testing::TestWithParam<e2e::ContractCase> {};

TEST_P(SimulatedContract, IsKept) {
  const auto body = [](std::string& text) {
    k8sclient::testing::ModelApi store;
    ApiServer server(store, "apiserver");
    store.OnStore([&](const std::string& collection, const nlohmann::json& before, const nlohmann::json& after) {
      server.Learn(std::make_shared<const ApiServer::Change>(collection, before, after));
    });
    server.Lag(std::chrono::seconds(1));
    e2e::ContractClient client(server, "c1");
    text = GetParam().happens(client);
  };
  EXPECT_EQ(TellOf(1, body).text, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(ApiServer, SimulatedContract, ::testing::ValuesIn(e2e::ContractCases()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::sim
