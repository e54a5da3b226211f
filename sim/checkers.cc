// SPDX-License-Identifier: Apache-2.0
// The list of all rules.
#include "sim/checkers.h"

#include <array>

namespace berth::sim {

std::vector<std::unique_ptr<Checker>> MakeCheckers(Story& story) {
  constexpr std::array kMakers{MakeOneHolder,
                               MakeNothingLiveFreed,
                               MakeNothingLeft,
                               MakeStandbyKept,
                               MakeInTime,
                               MakeWithheldKept,
                               MakeCheckHolds,
                               MakeGivenBack,
                               MakePoolThere,
                               MakeClocksKept};
  std::vector<std::unique_ptr<Checker>> checkers;
  checkers.reserve(kMakers.size());
  for (const auto& make : kMakers) checkers.push_back(make(story));
  return checkers;
}

}  // namespace berth::sim
