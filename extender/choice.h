// SPDX-License-Identifier: Apache-2.0
// Chooser: which nodes have an address left for a pod that kube-scheduler is about to place.
//
// The controller publishes a snapshot after each of its passes. A pod for which the chooser has answered since is not
// in the snapshot yet, so the chooser keeps an assumed entry for the pod: on one node if the answer had only that node,
// otherwise on an unknown node. If addresses are short, the answer has one node only, so that the assumed entry is
// exact. The chooser uses no clock and no I/O.
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

// A new leader chooses no nodes for this time, because it does not know its predecessor's answers. Afterwards the
// pods of these answers are bound, and the leader has seen this.
inline constexpr std::chrono::seconds kLeadingPause{3};
// An assumed entry ends at the latest with the first snapshot that was read this long after the answer or later,
// whatever became of the pod.
inline constexpr std::chrono::seconds kAssumedMax{30};
// If a pod found no node, the controller wakes the scheduler after this time, even if the chooser sees no more room:
// pods end and nodes change in ways that a comparison of sums does not show.
inline constexpr std::chrono::seconds kAwaitedMax{30};
// If a node keeps this many addresses free after the pod, the answer has all such nodes. In a second a scheduler places
// fewer pods than that on one node.
inline constexpr std::int64_t kPlenty = 32;

// No number in a snapshot exceeds 2^40, so sums do not overflow.
struct NodeRoom {
  // The free addresses of the node's own blocks, minus the addresses that pods bound to the node still need; by
  // resource, with each resource of which a pool serves the node. Below 0: these pods take addresses from Shared pools.
  Units left;
  std::vector<std::size_t> shared;  // indexes into Snapshot::shared of the Shared pools that serve the node
};

struct SharedRoom {
  std::string resource;
  std::int64_t free = 0;  // addresses that every node may take
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
  // By node, a message that names a needed resource of which no pool serves the node.
  std::map<std::string, std::string> excluded = {};
  std::string error = {};  // not empty: the chooser can say nothing now, and the rest is empty
};

// Any thread may call any member.
class Chooser {
 public:
  using Look = std::function<Seen(const std::string& key, const std::string& uid)>;

  // Call it when this controller begins to lead.
  void Lead(SteadyTime now);
  // Replaces the snapshot. `look` answers from the same world, which was read at `read_at`. Returns true if the caller
  // has to wake the scheduler, which by itself tries a refused pod again only after five minutes: if a pod has found no
  // node since Publish last returned true, and there is more room for it now or kAwaitedMax has passed; and once when
  // kLeadingPause is over, because the previous leader may have refused pods.
  [[nodiscard]] bool Publish(Snapshot snapshot, const Look& look, SteadyTime read_at);
  // Chooses nodes among those that the scheduler offers. Requires: `offered` has no name twice. If an answer has one
  // node and the scheduler asks again for the pod, the next answer has another node that fits, if there is one: the
  // first node may have refused the pod.
  [[nodiscard]] Choice Filter(const Pod& pod, const std::vector<std::string>& offered, SteadyTime now);
  // A score from 0 to 10 for each node: the more addresses the node has left, the higher.
  [[nodiscard]] std::vector<int> Scores(const Pod& pod, const std::vector<std::string>& nodes) const;
  [[nodiscard]] std::size_t assumed() const;

 private:
  struct Assumed {
    std::string key;
    std::string node;  // empty: one of several
    Units units;
    SteadyTime since;
    std::set<std::string> tried;  // nodes that were the only node of an answer
    bool was_seen = false;        // whether a snapshot's world has shown the pod
  };
  class Ledger;

  // Addresses left, by node. The key "" has what the Shared pools have left for all nodes, and contains each resource
  // of which a pool serves a node.
  using Rooms = std::map<std::string, Units>;

  void EndAssumed(const Look& look, SteadyTime read_at) BERTH_REQUIRES(mutex_);
  [[nodiscard]] Rooms Available() const BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool HasGrown(const Rooms& rooms) const BERTH_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::optional<SteadyTime> leads_since_ BERTH_GUARDED_BY(mutex_);
  std::unique_ptr<const Snapshot> snapshot_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, Assumed> assumed_ BERTH_GUARDED_BY(mutex_);  // by UID of the pod
  // Resources that pods without a node need, and of which a pool serves a node.
  std::set<std::string> awaited_ BERTH_GUARDED_BY(mutex_);
  std::optional<SteadyTime> wakes_at_ BERTH_GUARDED_BY(mutex_);  // Publish returns true then at the latest
  Rooms available_ BERTH_GUARDED_BY(mutex_);                     // what was left when the snapshot was published
};

}  // namespace berth::extender
