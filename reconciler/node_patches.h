// SPDX-License-Identifier: Apache-2.0
// NodePatches: limits how many patches of Nodes the controller sends.
#pragma once

#include <optional>

#include "reconciler/pods.h"

namespace berth::reconciler {

inline constexpr int kPatchBurst = 100;

class NodePatches {
 public:
  explicit NodePatches(int per_second = 20) : per_second_(per_second) {}

  // Call before each patch. False: the limit is reached, so the patch must wait.
  [[nodiscard]] bool Take(SteadyTime now);

 private:
  int per_second_;
  double tokens_ = kPatchBurst;
  std::optional<SteadyTime> refilled_;
};

}  // namespace berth::reconciler
