// SPDX-License-Identifier: Apache-2.0
// RunTogether: many callers that begin at the same moment.
#pragma once

#include <cstdint>
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

// Each share has `callers` of its own, a thread each, and each operation is done by whichever of them is free next.
// Blocks until all are done. Operations that fail are counted.
[[nodiscard]] OpSamples RunTogether(Operation operation, const std::vector<Share>& shares, int callers);

}  // namespace berth::bench
