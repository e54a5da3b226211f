// SPDX-License-Identifier: Apache-2.0
// The list of all checkers.
#include "sim/checkers.h"

namespace berth::sim {

std::vector<std::unique_ptr<Checker>> MakeCheckers(Story& story, Nanos error_of_servers) {
  std::vector<std::unique_ptr<Checker>> checkers;
  checkers.push_back(MakeOneHolder(story));
  checkers.push_back(MakeNothingLiveFreed(story));
  checkers.push_back(MakeNothingLeft(story));
  checkers.push_back(MakeStandbyKept(story));
  checkers.push_back(MakeInTime(story));
  checkers.push_back(MakeWithheldKept(story));
  checkers.push_back(MakeCheckHolds(story));
  checkers.push_back(MakeGivenBack(story));
  checkers.push_back(MakePoolThere(story));
  checkers.push_back(MakeClocksKept(story, error_of_servers));
  checkers.push_back(MakeEachFamily(story));
  checkers.push_back(MakeBlockLimit(story));
  checkers.push_back(MakeRequestedKept(story));
  checkers.push_back(MakeSelected(story));
  return checkers;
}

}  // namespace berth::sim
