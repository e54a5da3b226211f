// SPDX-License-Identifier: Apache-2.0
// ContractCases: joins the cases of all subjects.
#include "e2e/contract/contract.h"

namespace berth::e2e {

std::vector<ContractCase> ContractCases() {
  std::vector<ContractCase> all;
  for (const auto* cases :
       {&WriteCases(), &DeletionCases(), &ReadCases(), &WatchCases(), &SchemaCases(), &NodeCases()}) {
    all.insert(all.end(), cases->begin(), cases->end());
  }
  return all;
}

}  // namespace berth::e2e
