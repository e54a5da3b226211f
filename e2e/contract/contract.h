// SPDX-License-Identifier: Apache-2.0
// The behaviour of an API server on which berth relies, as a table of cases. The cases run on a real API server and on
// the models that tests use (k8sclient/testing/model_api.h, sim/api_server.h), so that the models behave like a real
// server.
#pragma once

#include <string>
#include <vector>

#include "e2e/contract/client.h"

namespace berth::e2e {

struct ContractCase {
  const char* name;  // a sentence
  // Runs the case and returns the outcome as text, which must be equal to `want`.
  std::string (*happens)(ContractClient& client);
  const char* want;
};

// One function and file for each subject.
[[nodiscard]] const std::vector<ContractCase>& WriteCases();
[[nodiscard]] const std::vector<ContractCase>& DeletionCases();
[[nodiscard]] const std::vector<ContractCase>& ReadCases();
[[nodiscard]] const std::vector<ContractCase>& WatchCases();
[[nodiscard]] const std::vector<ContractCase>& SchemaCases();
[[nodiscard]] const std::vector<ContractCase>& NodeCases();

// All cases.
[[nodiscard]] std::vector<ContractCase> ContractCases();

}  // namespace berth::e2e
