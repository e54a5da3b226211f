// SPDX-License-Identifier: Apache-2.0
// Decider: what is to be done, from everything that has been seen. The whole of the controller's mind; no I/O.
//
// A decision on a world that may be stale only does what is safe then: every write is a compare-and-swap, and what is
// withheld only grows. Acceptance, giving up what was withheld, and believing that something is gone wait for a fenced
// world: one that was compared with consistent lists begun after it was seen (fence.h).
#pragma once

#include "reconciler/census.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

class Decider {
 public:
  [[nodiscard]] Decision Decide(const World& world, const Memory& memory, const Moment& now, bool fenced);

 private:
  Census census_;
};

}  // namespace berth::reconciler
