// SPDX-License-Identifier: Apache-2.0
// Callers: many threads that begin to call at the same moment.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "bench/contender.h"
#include "bench/samples.h"

namespace berth::bench {

enum class Operation : std::uint8_t { kAdd, kDel };

// The containers for which one contender is called.
struct Share {
  Contender* contender;
  std::vector<std::string> container_ids;
};

// The threads stay from one wave to the next, so that their creation and end are not measured: 10,000 threads that
// touched their stacks for the first time took a fifth of the CPU time of a wave.
class Callers {
 public:
  Callers();
  ~Callers();
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  // Each share has `per_share` callers of its own, and the next free caller of a share takes its next operation. Blocks
  // until all operations are done. Counts operations that fail. Only one thread at a time may call Run.
  [[nodiscard]] OpSamples Run(Operation operation, const std::vector<Share>& shares, int per_share);

 private:
  class Caller;
  std::deque<Caller> callers_;
};

}  // namespace berth::bench
