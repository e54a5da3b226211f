// SPDX-License-Identifier: Apache-2.0
// Mailbox: carries objects from the watching threads to the deciding thread.
//
// The mailbox keeps only the latest state of each object, and the last states of vanished pods, until the controller
// fetches them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// How long a change of a pod, a node, a Lease or an IPAllocation may wait before it starts a pass.
inline constexpr std::chrono::milliseconds kLowPriorityPause{500};

// Any thread may call any member.
class Mailbox {
 public:
  // Replaces all objects of a kind by those of a list. `version`: the list's resourceVersion, used only for pods; 0:
  // unknown.
  template <typename Seen>
  void Replace(std::map<std::string, Seen> objects, std::uint64_t version = 0) {
    const Lock lock(mutex_);
    if constexpr (std::is_same_v<Seen, SeenPod>) NoteReplaced(objects, version);
    Pending<Seen>& pending = Of<Seen>();
    pending = {.is_loaded = true, .replaces = true, .changes = {}};
    for (auto& [name, object] : objects) pending.changes.emplace(name, Change<Seen>{.object = std::move(object)});
    Ring<Seen>();
  }

  template <typename Seen>
  void Put(std::string name, Seen object) {
    const Lock lock(mutex_);
    const std::uint64_t version = VersionOf(object);
    Of<Seen>().changes.insert_or_assign(std::move(name), Change<Seen>{.object = std::move(object), .version = version});
    Ring<Seen>();
  }

  // The watch saw the deletion of the object `name`. `version`: its resourceVersion at the deletion; 0: unknown.
  template <typename Seen>
  void Remove(std::string name, std::uint64_t version = 0) {
    const Lock lock(mutex_);
    Of<Seen>().changes.insert_or_assign(std::move(name), Change<Seen>{.object = std::nullopt, .version = version});
    Ring<Seen>();
  }

  // The watch saw the deletion of a pod. `pod`: its last state, which the world may not have, because the pod may have
  // come and gone between two fetches. `version`: the pod's resourceVersion at the deletion; 0: unknown.
  void ObserveDeletion(SeenPod pod, std::uint64_t version = 0);
  // The pod watch is complete up to `version`. ObserveDeletion and Replace set the version together with the deletion
  // or the list, never earlier. So if the next leader watches pods from this version, it misses nothing.
  void AdvancePodsTo(std::uint64_t version);

  // Brings the world up to date. Ignores an event of the watch if the world has a newer version of the object: the
  // controller's own requests bring newer versions into the world while the watch lags. Takes older versions from a
  // list, because after a restored backup an older version may be the present one. `now`: the time that the world
  // stores for these changes, for example for the end of a pod.
  void FetchInto(World& world, SteadyTime now);

  // True if pools, spaces, reservations and blocks were listed once. Before that, objects may exist that the world does
  // not contain. World::knows_holders answers for pods, nodes and Leases.
  [[nodiscard]] bool IsLoaded() const;

  // Waits until there is something to fetch, or until the deadline. Pods, nodes, Leases and IPAllocations change often,
  // so their changes end the wait only after kLowPriorityPause. False: stop is requested.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop);

 private:
  template <typename Seen>
  struct Change {
    std::optional<Seen> object = {};  // nothing: the object is gone
    std::uint64_t version = 0;        // 0: unknown
  };
  template <typename Seen>
  struct Pending {
    bool is_loaded = false;
    bool replaces = false;  // objects that are not in `changes` are gone
    std::map<std::string, Change<Seen>> changes = {};
  };

  // A list of pods replaces the changes that the world has not fetched yet. Adds to vanished_ each pod of these changes
  // that the list lacks or has with another identity, and stores the list's version.
  void NoteReplaced(const std::map<PodKey, SeenPod>& listed, std::uint64_t version) BERTH_REQUIRES(mutex_);

  template <typename Seen>
  [[nodiscard]] Pending<Seen>& Of() BERTH_REQUIRES(mutex_) {
    return std::get<Pending<Seen>>(pending_);
  }
  template <typename Seen>
  [[nodiscard]] bool Has() const BERTH_REQUIRES(mutex_) {
    return std::get<Pending<Seen>>(pending_).is_loaded;
  }
  template <typename Seen>
  void Ring() BERTH_REQUIRES(mutex_) {
    if constexpr (kIsLowPriority<Seen>) {
      has_low_priority_news_ = true;
    } else {
      has_news_ = true;
    }
    news_.notify_one();
  }
  template <typename Seen>
  static constexpr bool kIsLowPriority = std::is_same_v<Seen, SeenPod> || std::is_same_v<Seen, SeenNode> ||
                                         std::is_same_v<Seen, SeenLease> || std::is_same_v<Seen, SeenAllocation>;

  mutable Mutex mutex_;
  std::condition_variable_any news_;
  bool has_news_ BERTH_GUARDED_BY(mutex_) = false;
  bool has_low_priority_news_ BERTH_GUARDED_BY(mutex_) = false;
  std::tuple<Pending<SeenPool>, Pending<crds::Space>, Pending<SeenReservation>, Pending<SeenBlock>, Pending<SeenPod>,
             Pending<SeenNode>, Pending<SeenLease>, Pending<SeenAllocation>>
      pending_ BERTH_GUARDED_BY(mutex_);
  // Pods that vanished. True: the watch saw the deletion; false: only a list lacks the pod.
  std::vector<std::pair<SeenPod, bool>> vanished_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t pods_version_ BERTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t first_pods_version_ BERTH_GUARDED_BY(mutex_) = 0;  // version of the first list of pods
};

}  // namespace berth::reconciler
