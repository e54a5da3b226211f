// SPDX-License-Identifier: Apache-2.0
// Chooser: which nodes have an address left for a pod that kube-scheduler is about to place.
//
// The controller publishes a snapshot after each of its passes. A pod that was answered since is not in it yet, so the
// chooser keeps an assumed entry for it: on one node if only that node was answered, else on an unknown one. Where
// addresses are short one node is answered, so that its entry is exact. No clock and no I/O here.
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

// A new leader does not know what the one before has answered: within so long that is bound, and seen.
inline constexpr std::chrono::seconds kLeadingPause{3};
// An assumed entry ends with the first snapshot of so long after the answer, whatever became of the pod.
inline constexpr std::chrono::seconds kAssumedMax{30};
// The scheduler is woken for a pod that found no node after so long, even if no more room is seen: pods end and nodes
// change in ways that a comparison of sums does not show.
inline constexpr std::chrono::seconds kAwaitedMax{30};
// A node that keeps so many addresses free after the pod is answered beside others like it. In a second a scheduler
// places fewer pods than that on one node.
inline constexpr std::int64_t kPlenty = 32;

// No number in a snapshot is beyond 2^40, so sums do not overflow.
struct NodeRoom {
  // For each resource of which a pool serves the node: the free addresses of the node's own blocks, less those that
  // pods bound to it still need. Below 0: these take from Shared pools.
  Units left;
  std::vector<std::size_t> shared;  // the Shared pools that serve the node: indexes into Snapshot::shared
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
  Units needs;  // empty: it needs no address
};

// What the snapshot knows of a pod with an assumed entry.
enum class Seen : std::uint8_t {
  kUnknown,  // no such pod
  kWaiting,  // it is there, and bound to no node
  kSettled,  // it is bound, so the snapshot counts it, or has ended
};

struct Choice {
  std::vector<std::string> nodes = {};               // those that the scheduler may use, in the order offered
  std::map<std::string, std::string> full = {};      // why not the others: more room may come
  std::map<std::string, std::string> excluded = {};  // no pool of the resource serves these
  std::string error = {};                            // not empty: nothing can be said now; the rest is empty
};

// Any thread.
class Chooser {
 public:
  using Look = std::function<Seen(const std::string& key, const std::string& uid)>;

  // From now on this controller leads.
  void Lead(SteadyTime now);
  // Replaces the snapshot. `look` tells of the same world, and `read_at` when it was read. True: the scheduler has to
  // be woken, since it does not ask again by itself. That is if a pod has found no node since this was last true and
  // there is more room now or kAwaitedMax have passed, and once when kLeadingPause is over: the leader before may have
  // refused pods.
  [[nodiscard]] bool Publish(Snapshot snapshot, const Look& look, SteadyTime read_at);
  // Requires: `offered` has no name twice. If one node is answered, a pod that asks again gets another one that fits,
  // if there is one: the node may have refused it.
  [[nodiscard]] Choice Filter(const Pod& pod, const std::vector<std::string>& offered, SteadyTime now);
  // 0 to 10 for each node: the more addresses are left there, the higher.
  [[nodiscard]] std::vector<int> Scores(const Pod& pod, const std::vector<std::string>& nodes) const;
  [[nodiscard]] std::size_t assumed() const;

 private:
  struct Assumed {
    std::string key;
    std::string node;  // empty: one of several
    Units units;
    SteadyTime since;
    std::set<std::string> tried;  // nodes that were answered alone
    bool was_seen = false;        // some snapshot knew the pod
  };
  class Ledger;

  // By node; under "" what Shared pools have for all, with each resource that a pool serves a node with.
  using Rooms = std::map<std::string, Units>;

  void EndAssumed(const Look& look, SteadyTime read_at) BERTH_REQUIRES(mutex_);
  [[nodiscard]] Rooms Available() const BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool HasGrown(const Rooms& rooms) const BERTH_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::optional<SteadyTime> leads_since_ BERTH_GUARDED_BY(mutex_);
  std::unique_ptr<const Snapshot> snapshot_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, Assumed> assumed_ BERTH_GUARDED_BY(mutex_);  // by UID of the pod
  std::set<std::string> awaited_ BERTH_GUARDED_BY(mutex_);           // resources of pods that found no node, if known
  std::optional<SteadyTime> wakes_at_ BERTH_GUARDED_BY(mutex_);      // then at the latest
  Rooms available_ BERTH_GUARDED_BY(mutex_);                         // when the snapshot was published
};

}  // namespace berth::extender
