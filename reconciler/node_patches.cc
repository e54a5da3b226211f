// SPDX-License-Identifier: Apache-2.0
// NodePatches is a token bucket.
#include "reconciler/node_patches.h"

#include <algorithm>
#include <chrono>

namespace berth::reconciler {

bool NodePatches::Take(SteadyTime now) {
  const std::chrono::duration<double> passed = now - refilled_.value_or(now);
  tokens_ = std::min<double>(kPatchBurst, tokens_ + per_second_ * passed.count());
  refilled_ = now;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

}  // namespace berth::reconciler
