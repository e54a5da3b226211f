// SPDX-License-Identifier: Apache-2.0
// Chooser: which nodes have an address left for a pod that kube-scheduler is about to place.
//
// The controller publishes a snapshot after each of its passes. If the chooser has answered for a pod after the last
// snapshot, the snapshot does not contain the pod yet. So the chooser keeps an assumed entry for the pod: on one node
// if the answer had only this node, otherwise on an unknown node. If few addresses are left, the answer has only one
// node, so that the chooser knows the pod's node. The chooser uses no clock and no I/O.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace berth::extender {

using SteadyTime = std::chrono::steady_clock::time_point;

// Addresses by resource: {"ipv4": 1}.
using Units = std::map<std::string, std::int64_t>;

// A new leader chooses no nodes for this time, because it does not know the previous leader's answers. After this time
// the pods of these answers are bound, and the new leader has seen that they are bound.
inline constexpr std::chrono::seconds kLeadingPause{3};
// An assumed entry ends, even if the pod is not bound, with the first snapshot that was read at least this long after
// the answer.
inline constexpr std::chrono::seconds kAssumedMax{30};
// If a pod found no node, the controller wakes the scheduler after this time, even if the chooser sees no more
// addresses than before. The chooser compares only sums, and misses some changes of pods and nodes.
inline constexpr std::chrono::seconds kAwaitedMax{30};
// If at least one node has this many addresses left after it gets the pod, the answer contains all such nodes. A
// scheduler places fewer pods than this on one node in a second.
inline constexpr std::int64_t kPlenty = 32;

// No number in a snapshot exceeds 2^40, so sums do not overflow.
struct NodeRoom {
  // The free addresses of the node's own blocks, minus the addresses that pods bound to the node still need. By
  // resource; contains each resource for which a pool serves the node. Below 0: these pods take addresses from Shared
  // pools.
  Units left;
  std::vector<std::size_t> shared;  // indexes into Snapshot::shared of what Shared pools have left for the node
};

// Free addresses of a Shared pool, or those that several overlapping Shared pools have in common. A node may take them
// if NodeRoom::shared contains their index.
struct SharedRoom {
  std::string resource;
  std::int64_t free = 0;
};

struct Snapshot {
  std::map<std::string, NodeRoom> nodes;
  std::vector<SharedRoom> shared;
};

struct Pod {
  std::string key;  // "<namespace>/<name>"
  std::string uid;
  Units needs;  // empty: the pod needs no address
};

// The state of a pod with an assumed entry, in the snapshot's world.
enum class Seen : std::uint8_t {
  kUnknown,  // no such pod
  kWaiting,  // the pod exists, and is bound to no node
  kSettled,  // the pod is bound, so the snapshot counts it, or it has ended
};

struct Choice {
  std::vector<std::string> nodes = {};           // nodes that the scheduler may use, in the order offered
  std::map<std::string, std::string> full = {};  // by node, why the scheduler may not use it now: more room may come
  // By node, a message that names a needed resource for which no pool serves the node.
  std::map<std::string, std::string> excluded = {};
  std::string error = {};  // not empty: the chooser cannot choose now, and the other fields are empty
};

// Any thread may call any member.
class Chooser {
 public:
  using Look = std::function<Seen(const std::string& key, const std::string& uid)>;

  // Call it when this controller begins to lead.
  void Lead(SteadyTime now);
  // Replaces the snapshot. `look` returns the state that a pod has in the snapshot's world; the controller read this
  // world at `read_at`. Returns true if the caller has to wake the scheduler, which itself tries a refused pod again
  // only after five minutes. First case: a pod has found no node since Publish last returned true, and now more
  // addresses are left for it, or kAwaitedMax has passed. Second case, once for each leader: kLeadingPause has ended,
  // and the previous leader may have refused pods.
  [[nodiscard]] bool Publish(Snapshot snapshot, const Look& look, SteadyTime read_at);
  // Chooses nodes among those that the scheduler offers. Requires: `offered` has no name twice. If an answer has one
  // node and the scheduler asks again for the same pod, the next answer has another node with room, if there is such a
  // node: the first node may have refused the pod.
  [[nodiscard]] Choice Filter(const Pod& pod, const std::vector<std::string>& offered, SteadyTime now);
  // A score from 0 to 10 for each node: the more addresses the node has left, the higher.
  [[nodiscard]] std::vector<int> Scores(const Pod& pod, const std::vector<std::string>& nodes) const;
  [[nodiscard]] std::size_t assumed() const;

 private:
  struct Assumed {
    std::string key;
    std::string node;  // empty: the answer had several nodes
    Units units;
    SteadyTime since;
    std::set<std::string> tried;  // nodes that Filter has answered as the only node
    bool was_seen = false;        // whether a snapshot's world has shown the pod
  };
  class Ledger;

  // Addresses left, by node. The key "" stands for all nodes: it has what the Shared pools have left, and contains each
  // resource for which a pool serves a node.
  using Rooms = std::map<std::string, Units>;

  void EndAssumed(const Look& look, SteadyTime read_at) BERTH_REQUIRES(mutex_);
  [[nodiscard]] Rooms Available() const BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool HasGrown(const Rooms& rooms) const BERTH_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::optional<SteadyTime> leads_since_ BERTH_GUARDED_BY(mutex_);
  std::unique_ptr<const Snapshot> snapshot_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, Assumed> assumed_ BERTH_GUARDED_BY(mutex_);  // by UID of the pod
  // Resources that pods without a node need, and for which a pool serves a node.
  std::set<std::string> awaited_ BERTH_GUARDED_BY(mutex_);
  std::optional<SteadyTime> wakes_at_ BERTH_GUARDED_BY(mutex_);  // the first Publish from then on returns true
  Rooms available_ BERTH_GUARDED_BY(mutex_);                     // addresses left when the snapshot was published
};

}  // namespace berth::extender
