// SPDX-License-Identifier: Apache-2.0
// Demand: blocks for nodes on which waiting pods could run.
//
// A pod that requests addresses is placed only on a node whose number has room for it. Agents claim blocks for pods
// that are bound already, and ahead while blocks are plenty. So where the number of every node that a waiting pod could
// run on is used up, nobody would claim anything, and the pod would wait for ever: the controller creates a block for
// one of these nodes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// A pod has to be unschedulable for so long: most are so for a moment only, and agents claim ahead by themselves.
inline constexpr std::chrono::seconds kDemandAfter{2};
// A node whose number has had room for a waiting pod for so long does not help that pod; the next node is tried.
inline constexpr std::chrono::seconds kDrawMax{30};
// Blocks that one decision creates.
inline constexpr std::size_t kCreatedMax = 20;

struct DemandScope {
  const World& world;
  const Census& census;
  const Counts& counts;
  const CountedPools& pools;
};

// What stands between a node and one more block of a counted pool.
enum class BlockObstacle : std::uint8_t {
  kNone,     // the controller may create one
  kRefused,  // the pool does not count for the node
  kLimit,    // the node has spec.maxBlocksPerNode blocks
  kAllTaken  // every block exists: one that is empty has to be taken from another node
};
// `has`: blocks of the pool that the node has; `taken`: blocks that are to be created before.
[[nodiscard]] BlockObstacle ObstacleOf(const DemandScope& scope, const ipam::Pool& pool, const SeenNode& node, int has,
                                       std::size_t taken);

// Blocks of one pool that waiting pods need and that nobody can create, since all exist.
struct Lack {
  std::size_t blocks = 0;
  SteadyTime since;  // from when the first of these pods has waited
};

class DemandDecider {
 public:
  // Adds CreateBlock actions. Requires: world.knows_holders; the counts are up to date.
  void Decide(const DemandScope& scope, const Moment& now, Decision& decision);

  // By UID of the pool.
  [[nodiscard]] const std::map<std::string, Lack>& lacks() const { return lacks_; }
  // Whether the block was created for waiting pods just now and may still draw one.
  [[nodiscard]] bool MayStillDraw(const std::string& block, SteadyTime now) const;

 private:
  using NodeResource = std::pair<std::string, std::string>;
  class Pass;

  std::map<PodKey, SteadyTime> waiting_since_;
  std::map<NodeResource, SteadyTime> room_since_;  // since when the node's number has had room while pods waited
  std::map<NodeResource, SteadyTime> tried_;   // when a block was last created there, or its room last found useless
  std::map<std::string, SteadyTime> created_;  // by name of the block
  std::map<std::string, Lack> lacks_;
};

}  // namespace berth::reconciler
