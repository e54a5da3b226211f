// SPDX-License-Identifier: Apache-2.0
// RunRounds: the contenders in turns, so that whatever else the machine does meets all of them alike.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/contender.h"
#include "bench/samples.h"
#include "bench/workload.h"

namespace berth::bench {

struct RoundsOptions {
  std::vector<int> callers = {1, 8, 32};
  int operations = 200;  // per round, contender and number of callers
  int rounds = 5;
  std::uint64_t seed = 1;  // of the containers' names
};

struct ContenderFigures {
  std::string name;
  OpFigures add;
  OpFigures del;
};

// What was measured with one number of callers, in the order of the contenders.
struct CallersFigures {
  int callers = 0;
  std::vector<ContenderFigures> contenders = {};
};

// Says what is being done, for a person who waits.
using Progress = std::function<void(const std::string&)>;

// Gives each contender kPrefill addresses, measures, takes them back. Each number of callers begins with a round that
// is not counted; the order of contenders is rotated by one from round to round.
// Errors: those of the meters, and of the prefill: a contender that cannot do a single ADD.
[[nodiscard]] Expected<std::vector<CallersFigures>> RunRounds(const std::vector<std::unique_ptr<Contender>>& contenders,
                                                              const RoundsOptions& options, const Meters& meters,
                                                              const Progress& progress);

}  // namespace berth::bench
