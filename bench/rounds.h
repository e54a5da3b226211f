// SPDX-License-Identifier: Apache-2.0
// RunRounds: measures the contenders in turn, so that other work of the machine affects all of them alike.
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
  std::uint64_t seed = 1;  // for the containers' names
};

struct ContenderFigures {
  std::string name;
  OpFigures add;
  OpFigures del;
};

// The figures of all contenders for one number of callers, in the order of the contenders.
struct CallersFigures {
  int callers = 0;
  std::vector<ContenderFigures> contenders = {};
};

// Tells a person who waits what is being done.
using Progress = std::function<void(const std::string&)>;

// Gives each contender kPrefill addresses, measures, and takes the addresses back. Each number of callers begins with a
// round that does not count. The order of the contenders rotates by one from round to round.
// Errors: those of the meters, and of the prefill: a contender that cannot do a single ADD.
[[nodiscard]] Expected<std::vector<CallersFigures>> RunRounds(const std::vector<std::unique_ptr<Contender>>& contenders,
                                                              const RoundsOptions& options, const Meters& meters,
                                                              const Progress& progress);

}  // namespace berth::bench
