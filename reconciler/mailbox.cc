// SPDX-License-Identifier: Apache-2.0
// Handing over what was seen.
#include "reconciler/mailbox.h"

#include <utility>

namespace berth::reconciler {

namespace {

template <typename Pending, typename Objects>
void Apply(Pending pending, Objects& objects) {
  if (pending.replaces) objects.clear();
  for (auto& [name, object] : pending.changes) {
    if (object) {
      objects.insert_or_assign(name, *std::move(object));
    } else {
      objects.erase(name);
    }
  }
}

// The block set's version shall not grow without need, so a replacement is made of changes as well.
template <typename Pending>
void ApplyBlocks(Pending pending, World& world) {
  if (pending.replaces) {
    for (const auto& [name, block] : world.blocks()) pending.changes.emplace(name, std::nullopt);
  }
  for (auto& [name, object] : pending.changes) {
    if (object) {
      world.PutBlock(*std::move(object));
    } else {
      world.RemoveBlock(name);
    }
  }
}

// Takes the changes out; that the kind was loaded stays.
template <typename Pending>
Pending TakeFrom(Pending& pending) {
  Pending taken = std::move(pending);
  pending = Pending();
  pending.is_loaded = taken.is_loaded;
  return taken;
}

}  // namespace

void Mailbox::FetchInto(World& world) {
  std::unique_lock lock(mutex_);
  has_news_ = false;
  auto pools = TakeFrom(pools_);
  auto spaces = TakeFrom(spaces_);
  auto reservations = TakeFrom(reservations_);
  auto blocks = TakeFrom(blocks_);
  lock.unlock();
  Apply(std::move(pools), world.pools);
  Apply(std::move(spaces), world.spaces);
  Apply(std::move(reservations), world.reservations);
  ApplyBlocks(std::move(blocks), world);
}

bool Mailbox::IsLoaded() const {
  const std::scoped_lock lock(mutex_);
  return pools_.is_loaded && spaces_.is_loaded && reservations_.is_loaded && blocks_.is_loaded;
}

bool Mailbox::WaitUntil(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  news_.wait_until(lock, stop, deadline, [this] { return has_news_; });
  return !stop.stop_requested();
}

}  // namespace berth::reconciler
