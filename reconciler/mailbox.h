// SPDX-License-Identifier: Apache-2.0
// Mailbox: from the threads that watch to the one that decides.
//
// Only the latest state of each object is kept until it is fetched, so it never holds more than the cluster does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <vector>

#include "base/mutex.h"
#include "reconciler/world.h"

namespace berth::reconciler {

inline constexpr std::chrono::milliseconds kMurmurPause{500};

// Any thread may call any of it.
class Mailbox {
 public:
  template <typename Seen>
  void Replace(std::map<std::string, Seen> objects) {
    const Lock lock(mutex_);
    ReplaceLocked(std::move(objects));
  }
  // The pods of a list, and its version.
  void ReplacePods(std::map<PodKey, SeenPod> pods, std::uint64_t version);

  template <typename Seen>
  void Put(std::string name, Seen object) {
    const Lock lock(mutex_);
    Of<Seen>().changes.insert_or_assign(std::move(name), std::move(object));
    Ring<Seen>();
  }

  template <typename Seen>
  void Remove(std::string name) {
    const Lock lock(mutex_);
    Of<Seen>().changes.insert_or_assign(std::move(name), std::nullopt);
    Ring<Seen>();
  }

  // A pod went, at that version, if it is not 0; its last state, for it may have come and gone between two fetches.
  void Vanish(SeenPod pod, std::uint64_t version = 0);
  // All that pods did until that version was said. What is said with a version comes with it, never before: renewals of
  // Leases count from there.
  void ReachPods(std::uint64_t version);

  // Brings the world up to date; `now`: when what vanished was seen to.
  void FetchInto(World& world, SteadyTime now);

  // Whether every kind of berth's own was listed once: before that, what is not in the world may well exist. Of the
  // others World::knows_holders tells.
  [[nodiscard]] bool IsLoaded() const;

  // Waits for something to fetch. What pods, nodes and Leases do, which is much, wakes after kMurmurPause only. False:
  // stop is requested.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop);

 private:
  template <typename Seen>
  struct Pending {
    bool is_loaded = false;
    bool replaces = false;  // what is not in changes is gone
    std::map<std::string, std::optional<Seen>> changes = {};
  };

  template <typename Seen>
  void ReplaceLocked(std::map<std::string, Seen> objects) BERTH_REQUIRES(mutex_) {
    Pending<Seen>& pending = Of<Seen>();
    if constexpr (std::is_same_v<Seen, SeenPod>) NoteReplaced(objects);
    pending = {.is_loaded = true, .replaces = true, .changes = {}};
    for (auto& [name, object] : objects) pending.changes.emplace(name, std::move(object));
    Ring<Seen>();
  }

  // Pods that are on their way to the world and are not in the list that comes after were seen to vanish.
  void NoteReplaced(const std::map<PodKey, SeenPod>& listed) BERTH_REQUIRES(mutex_);

  template <typename Seen>
  [[nodiscard]] Pending<Seen>& Of() BERTH_REQUIRES(mutex_);
  template <typename Seen>
  void Ring() BERTH_REQUIRES(mutex_) {
    if constexpr (kIsMurmur<Seen>) {
      has_murmur_ = true;
    } else {
      has_news_ = true;
    }
    news_.notify_one();
  }
  template <typename Seen>
  static constexpr bool kIsMurmur = std::is_same_v<Seen, SeenPod> || std::is_same_v<Seen, SeenNode> ||
                                    std::is_same_v<Seen, SeenLease> || std::is_same_v<Seen, SeenAllocation>;

  mutable Mutex mutex_;
  std::condition_variable_any news_;
  bool has_news_ BERTH_GUARDED_BY(mutex_) = false;
  bool has_murmur_ BERTH_GUARDED_BY(mutex_) = false;
  Pending<SeenPool> pools_ BERTH_GUARDED_BY(mutex_);
  Pending<crds::Space> spaces_ BERTH_GUARDED_BY(mutex_);
  Pending<SeenReservation> reservations_ BERTH_GUARDED_BY(mutex_);
  Pending<SeenBlock> blocks_ BERTH_GUARDED_BY(mutex_);
  Pending<SeenPod> pods_ BERTH_GUARDED_BY(mutex_);
  // Pods that vanished. True: the watch saw the pod go; false: only a list lacks it.
  std::vector<std::pair<SeenPod, bool>> vanished_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t pods_version_ BERTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t first_pods_version_ BERTH_GUARDED_BY(mutex_) = 0;  // of the first list
  Pending<SeenNode> nodes_ BERTH_GUARDED_BY(mutex_);
  Pending<SeenLease> leases_ BERTH_GUARDED_BY(mutex_);
  Pending<SeenAllocation> allocations_ BERTH_GUARDED_BY(mutex_);
};

template <>
inline Mailbox::Pending<SeenPool>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return pools_;
}
template <>
inline Mailbox::Pending<crds::Space>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return spaces_;
}
template <>
inline Mailbox::Pending<SeenReservation>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return reservations_;
}
template <>
inline Mailbox::Pending<SeenBlock>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return blocks_;
}
template <>
inline Mailbox::Pending<SeenPod>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return pods_;
}
template <>
inline Mailbox::Pending<SeenNode>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return nodes_;
}
template <>
inline Mailbox::Pending<SeenLease>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return leases_;
}
template <>
inline Mailbox::Pending<SeenAllocation>& Mailbox::Of() BERTH_REQUIRES(mutex_) {
  return allocations_;
}

}  // namespace berth::reconciler
