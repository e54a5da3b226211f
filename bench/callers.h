// SPDX-License-Identifier: Apache-2.0
// Callers: many threads that call, and begin at the same moment.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "bench/contender.h"
#include "bench/samples.h"

namespace berth::bench {

enum class Operation : std::uint8_t { kAdd, kDel };

// What is to be done to one contender.
struct Share {
  Contender* contender;
  std::vector<std::string> container_ids;
};

// Its threads stay from one wave to the next, so that what is measured is not that of making and ending them: ten
// thousand threads that touch their stacks for the first time took a fifth of the CPU time of a wave.
class Callers {
 public:
  Callers();
  ~Callers();
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  // Each share has `per_share` callers of its own, and each operation is done by whichever of them is free next.
  // Blocks until all are done. Operations that fail are counted. One thread at a time.
  [[nodiscard]] OpSamples Run(Operation operation, const std::vector<Share>& shares, int per_share);

 private:
  class Caller;
  std::deque<Caller> callers_;
};

}  // namespace berth::bench
