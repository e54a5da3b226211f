// SPDX-License-Identifier: Apache-2.0
// Mailbox: from the threads that watch to the one that decides.
//
// Only the latest state of each object is kept until it is fetched, so it never holds more than the cluster does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "reconciler/world.h"

namespace berth::reconciler {

// Any thread may call any of it.
class Mailbox {
 public:
  template <typename Seen>
  void Replace(std::map<std::string, Seen> objects) {
    const std::scoped_lock lock(mutex_);
    Pending<Seen>& pending = Of<Seen>();
    pending = {.is_loaded = true, .replaces = true, .changes = {}};
    for (auto& [name, object] : objects) pending.changes.emplace(name, std::move(object));
    Ring();
  }

  template <typename Seen>
  void Put(std::string name, Seen object) {
    const std::scoped_lock lock(mutex_);
    Of<Seen>().changes.insert_or_assign(std::move(name), std::move(object));
    Ring();
  }

  template <typename Seen>
  void Remove(std::string name) {
    const std::scoped_lock lock(mutex_);
    Of<Seen>().changes.insert_or_assign(std::move(name), std::nullopt);
    Ring();
  }

  // Brings the world up to date.
  void FetchInto(World& world);

  // Whether every kind was listed once: before that, what is not in the world may well exist.
  [[nodiscard]] bool IsLoaded() const;

  // Waits for something to fetch. False: stop is requested.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop);

 private:
  template <typename Seen>
  struct Pending {
    bool is_loaded = false;
    bool replaces = false;  // what is not in changes is gone
    std::map<std::string, std::optional<Seen>> changes = {};
  };

  template <typename Seen>
  [[nodiscard]] Pending<Seen>& Of();
  void Ring() {
    has_news_ = true;
    news_.notify_one();
  }

  mutable std::mutex mutex_;
  std::condition_variable_any news_;
  // All guarded by mutex_.
  bool has_news_ = false;
  Pending<SeenPool> pools_;
  Pending<crds::Space> spaces_;
  Pending<SeenReservation> reservations_;
  Pending<SeenBlock> blocks_;
};

template <>
inline Mailbox::Pending<SeenPool>& Mailbox::Of() {
  return pools_;
}
template <>
inline Mailbox::Pending<crds::Space>& Mailbox::Of() {
  return spaces_;
}
template <>
inline Mailbox::Pending<SeenReservation>& Mailbox::Of() {
  return reservations_;
}
template <>
inline Mailbox::Pending<SeenBlock>& Mailbox::Of() {
  return blocks_;
}

}  // namespace berth::reconciler
