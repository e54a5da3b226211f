// SPDX-License-Identifier: Apache-2.0
// Numbers: which `ipam.berth.dev/<resource>` each Node should show, and when a difference is written
// (docs/scheduling.md, docs/adr/0012).
//
// A larger number is written at once. A smaller one is dangerous: kube-scheduler may have placed pods by the larger one
// that this controller has not seen yet, and a kubelet that restarts rejects running pods if the number is below what
// they request. A number that is missing rejects nobody, and the scheduler takes it for zero. So a number is lowered
// only after the smaller one was wanted for five seconds and a consistent list of the node's pods was read; if fewer
// than eight units would be left, it is taken away first, and comes back smaller when the watch of Nodes has shown the
// absence for three seconds and a second list was read.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "reconciler/counts.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// For so long a smaller number has to be wanted.
inline constexpr std::chrono::seconds kLowerAfter{5};
// For so long the watch of Nodes has to show no number before one comes back.
inline constexpr std::chrono::seconds kAbsentFor{3};
// A smaller number that leaves at least so many units is written without taking the number away first.
inline constexpr std::int64_t kLeftMin = 8;
// A list of a node's pods counts for so long.
inline constexpr std::chrono::seconds kListValid{2};
// After a list that led to no number, the next one is read so much later.
inline constexpr std::chrono::seconds kNextList{5};
// Writes of one Node: this far apart; where no pod waits and enough is left before and after, that far.
inline constexpr std::chrono::seconds kNodePause{1};
inline constexpr std::chrono::seconds kCalmNodePause{10};
inline constexpr int kPatchBurst = 100;

struct NumberScope {
  const World& world;
  const Counts& counts;
  const Memory& memory;
  bool counts_pools = true;     // false: every number is taken away
  int patches_per_second = 20;  // of all Nodes together
};

class NumberDecider {
 public:
  // Adds ShowNumbers and ListPods actions to the decision. Requires: world.knows_holders.
  void Decide(const NumberScope& scope, const Moment& now, Decision& decision);

  // The number that the node should show by now; nothing: none. For people and metrics.
  [[nodiscard]] static std::optional<std::int64_t> Wanted(const World& world, const SeenNode& node, const Tally& tally);

 private:
  using Key = std::pair<std::string, std::string>;  // node, resource
  // A smaller number than the one that is shown has been wanted without a break.
  struct Lowering {
    SteadyTime since;
    std::optional<std::int64_t> highest;  // that was wanted since then
  };
  struct Plan;
  class Pass;

  std::map<Key, Lowering> lowering_;
  double tokens_ = kPatchBurst;
  std::optional<SteadyTime> refilled_;
};

// More than a tenth of all nodes are not Ready: then what this controller sees is suspect, and none of them loses its
// numbers.
[[nodiscard]] bool AreManyNotReady(const World& world);

}  // namespace berth::reconciler
