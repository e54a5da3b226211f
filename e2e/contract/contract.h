// SPDX-License-Identifier: Apache-2.0
// The contract of an API server, as far as berth relies on it: a table of cases, run against the real one and against
// what takes its place in tests (k8sclient/testing/model_api.h, sim/api_server.h), so that these do not lie.
#pragma once

#include <string>
#include <vector>

#include "e2e/contract/client.h"

namespace berth::e2e {

struct ContractCase {
  const char* name;  // a sentence
  // What happened, in words that `want` spells.
  std::string (*happens)(ContractClient& client);
  const char* want;
};

// By subject, a file each.
[[nodiscard]] const std::vector<ContractCase>& WriteCases();
[[nodiscard]] const std::vector<ContractCase>& DeletionCases();
[[nodiscard]] const std::vector<ContractCase>& ReadCases();
[[nodiscard]] const std::vector<ContractCase>& WatchCases();
[[nodiscard]] const std::vector<ContractCase>& SchemaCases();
[[nodiscard]] const std::vector<ContractCase>& NodeCases();

// All of them.
[[nodiscard]] std::vector<ContractCase> ContractCases();

}  // namespace berth::e2e
