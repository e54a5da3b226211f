// SPDX-License-Identifier: Apache-2.0
// Numbers: which address count (`ipam.berth.dev/<resource>`) each Node should show, and when the controller writes a
// count that differs (docs/scheduling.md, docs/adr/0012).
//
// The controller writes a larger count at once. A smaller count is dangerous: because of the larger count
// kube-scheduler may have placed pods that this controller has not seen yet, and a kubelet that restarts rejects
// running pods if the count is below their requests. If the count is missing, no kubelet rejects a pod, and the
// scheduler takes the count for zero. So the controller lowers a count only after the smaller count was wanted for 5 s
// and a consistent list of the node's pods was read. If fewer than 8 units would be left, the controller first removes
// the count. It writes the smaller count when the watch of Nodes has shown no count for 3 s and a second list was read.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reconciler/counts.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// How long the wanted count has to be smaller than the shown count before the controller lowers the count.
inline constexpr std::chrono::seconds kLowerAfter{5};
// How long the watch of Nodes has to show no count before the controller writes a count again.
inline constexpr std::chrono::seconds kAbsentFor{3};
// If a smaller count leaves at least this many units, the controller writes it without removing the count first.
inline constexpr std::int64_t kLeftMin = 8;
// How long a list of a node's pods is valid.
inline constexpr std::chrono::seconds kListValid{2};
// Time from a list that did not lead to a write of a count to the next list.
inline constexpr std::chrono::seconds kNextList{5};
// Limit of the lists of one pass. A list is valid only for kListValid, so the controller requests no more lists than it
// can use.
inline constexpr std::size_t kListsMax = 40;
// Minimum time between two writes of one Node. kCalmNodePause applies if no pod waits and kLeftMin units are left
// before and after the write.
inline constexpr std::chrono::seconds kNodePause{1};
inline constexpr std::chrono::seconds kCalmNodePause{10};

struct NumberScope {
  const World& world;
  const Counts& counts;
  const ControllerState& state;
  bool counts_pools = true;  // false: the controller removes every count
};

class NumberDecider {
 public:
  // Adds ShowNumbers actions to the decision, the most urgent first. May add more actions than the controller may send
  // at once (ControllerState::node_patches). Returns the lists that further counts need, the most urgent first: at most
  // kListsMax. Requires: world.knows_holders.
  [[nodiscard]] std::vector<ListPods> Decide(const NumberScope& scope, const Now& now, Decision& decision);

  // The count that the node should show now; nothing: none. For people and metrics.
  [[nodiscard]] static std::optional<std::int64_t> Wanted(const World& world, const SeenNode& node, const Tally& tally);

 private:
  using Key = std::pair<std::string, std::string>;  // node, resource
  // Since `since`, the wanted count has always been smaller than the count that the Node shows.
  struct Lowering {
    SteadyTime since;
    std::optional<std::int64_t> highest;  // the highest count wanted since then
  };
  struct Plan;
  class Pass;

  std::map<Key, Lowering> lowering_;
  std::map<std::string, SteadyTime> last_lists_;  // by node: when its pods were last listed
};

// True if more than a tenth of all nodes are not Ready. The controller then does not trust the condition Ready, and
// removes no counts because of it.
[[nodiscard]] bool AreManyNotReady(const World& world);

}  // namespace berth::reconciler
