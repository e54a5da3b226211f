// SPDX-License-Identifier: Apache-2.0
// Demand: creates blocks for nodes on which waiting pods could run.
//
// The scheduler places a pod that requests addresses only on a node whose address count has room. Agents claim blocks
// for pods that are bound already, and in advance while there are plenty of blocks. So if the address count of every
// node on which a waiting pod could run is used up, no agent claims a block, and the pod would wait for ever. The
// controller then creates a block for one of these nodes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// How long a pod has to be unschedulable before the controller creates a block. Most pods are unschedulable only for a
// moment, and agents claim blocks in advance by themselves.
inline constexpr std::chrono::seconds kDemandAfter{2};
// If a node's address count has had room for a waiting pod for this long, the room does not help the pod, and the
// controller tries the next node.
inline constexpr std::chrono::seconds kDrawMax{30};
// The same if the Node's address count does not show the room yet, for example because the API server refuses the
// count. In a cluster of 5,000 nodes it takes four minutes to write all counts (NodePatches).
inline constexpr std::chrono::minutes kHiddenMax{5};
// Limit of blocks that one decision creates.
inline constexpr std::size_t kCreatedMax = 20;
// Limit of groups of waiting pods that one decision serves, because each group is compared with each node. A group
// consists of the pods with equal needs and equal placements. The groups take turns.
inline constexpr std::size_t kGroupsMax = 50;
inline constexpr std::chrono::seconds kNextTurn{1};

struct DemandScope {
  const World& world;
  const Census& census;
  const Counts& counts;
  const CountedPools& pools;
};

// Why the controller cannot create one more block of a counted pool for a node.
enum class BlockObstacle : std::uint8_t {
  kNone,     // the controller may create one
  kRefused,  // the pool does not count for the node
  kLimit,    // the node has spec.maxBlocksPerNode blocks
  kAllTaken  // every block exists: an empty block has to be taken from another node
};
// `has`: number of the node's blocks of the pool; `taken`: number of the pool's blocks that the decision creates before
// this one.
[[nodiscard]] BlockObstacle ObstacleOf(const DemandScope& scope, const ipam::Pool& pool, const SeenNode& node, int has,
                                       std::size_t taken);

// Blocks of one pool that waiting pods need and that nobody can create, because all blocks exist.
struct Lack {
  std::size_t blocks = 0;
  SteadyTime since;  // since when the first of these pods has waited
};

class DemandDecider {
 public:
  // Adds CreateBlock actions, and sets lacks(). Requires: world.knows_holders; the counts are up to date.
  void Decide(const DemandScope& scope, const Now& now, Decision& decision);

  // By UID of the pool.
  [[nodiscard]] const std::map<std::string, Lack>& lacks() const { return lacks_; }
  // True if the controller created the block for waiting pods less than kDrawMax ago, so that the scheduler may still
  // place such a pod on the block's node.
  [[nodiscard]] bool MayStillDraw(const std::string& block, SteadyTime now) const;

 private:
  class Pass;

  struct Waiting {
    SteadyTime since;
    SteadyTime served = SteadyTime::min();  // when the controller last created a block for the pod; min(): never
  };
  using GroupKey = std::pair<std::shared_ptr<const Placement>, std::vector<UnitRequest>>;
  struct Turn {
    SteadyTime at = SteadyTime::min();       // when a decision last served the group; min(): never
    std::map<std::string, Lack> lacks = {};  // what the group lacked then, by UID of the pool
  };
  // Times of one node while pods wait. The keys of both maps are resources.
  struct NodeTimes {
    struct HasRoom {
      bool is_shown;            // the node's address count has room
      SteadyTime useless_from;  // from this time on the room is useless, if nothing changes
    };
    std::map<std::string, HasRoom> has_room = {};  // the resources of which the node has room
    // By resource: the last time at which the controller created a block on the node, or found that the node's room
    // does not help the pods.
    std::map<std::string, SteadyTime> tried = {};
  };
  std::map<PodKey, Waiting> waiting_;
  std::map<GroupKey, Turn> turns_;
  std::map<std::string, NodeTimes> times_;     // by node
  std::map<std::string, SteadyTime> created_;  // by name of the block
  std::map<std::string, Lack> lacks_;
};

}  // namespace berth::reconciler
