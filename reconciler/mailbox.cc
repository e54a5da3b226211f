// SPDX-License-Identifier: Apache-2.0
// Puts what the watches have shown into the world.
#include "reconciler/mailbox.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace berth::reconciler {

namespace {

// Calls `put` or `remove` for each pending change, except an event that is older than the world's object. `all`: the
// world's objects. After a list, calls `remove` for each of them that the list lacks: some containers, such as Pods,
// must learn of each removed object.
template <typename Pending, typename All, typename Put, typename Remove>
void ApplyEach(Pending pending, const All& all, const Put& put, const Remove& remove) {
  if (pending.replaces) {
    for (const auto& [key, object] : all) pending.changes.try_emplace(key);
  }
  for (auto& [key, change] : pending.changes) {
    const auto known = all.find(key);
    const bool is_known_newer = known != all.end() && VersionOf(known->second) > change.version;
    if (is_known_newer && change.version != 0 && !pending.replaces) continue;
    if (change.object) {
      put(*std::move(change.object));
    } else {
      remove(key);
    }
  }
}

template <typename Pending, typename Objects>
void Apply(Pending pending, Objects& objects) {
  const auto put = [&objects](auto object) {
    std::string name = NameOf(object);
    objects.insert_or_assign(std::move(name), std::move(object));
  };
  ApplyEach(std::move(pending), objects, put, [&objects](const std::string& name) { objects.erase(name); });
}

// Takes the changes out, and keeps is_loaded.
template <typename Pending>
Pending TakeFrom(Pending& pending) {
  Pending taken = std::move(pending);
  pending = Pending();
  pending.is_loaded = taken.is_loaded;
  return taken;
}

}  // namespace

void Mailbox::FetchInto(World& world, SteadyTime now) {
  Lock lock(mutex_);
  has_news_ = false;
  has_low_priority_news_ = false;
  auto pools = TakeFrom(Of<SeenPool>());
  auto spaces = TakeFrom(Of<crds::Space>());
  auto reservations = TakeFrom(Of<SeenReservation>());
  auto blocks = TakeFrom(Of<SeenBlock>());
  auto pods = TakeFrom(Of<SeenPod>());
  const auto vanished = std::exchange(vanished_, {});
  const std::uint64_t pods_version = pods_version_;
  const std::uint64_t first_pods_version = first_pods_version_;
  auto nodes = TakeFrom(Of<SeenNode>());
  auto leases = TakeFrom(Of<SeenLease>());
  auto allocations = TakeFrom(Of<SeenAllocation>());
  world.knows_allocations = Has<SeenAllocation>();
  world.knows_holders = Has<SeenPod>() && Has<SeenNode>() && Has<SeenLease>();
  lock.unlock();
  // A pod that vanished before the first fetch still existed at the version of the first list.
  if (world.pods.version() == 0) world.pods.AdvanceTo(first_pods_version);
  Apply(std::move(pools), world.pools);
  Apply(std::move(spaces), world.spaces);
  Apply(std::move(reservations), world.reservations);
  ApplyEach(
      std::move(blocks),
      world.blocks(),
      [&world](SeenBlock block) { world.PutBlock(std::move(block)); },
      [&world](const std::string& name) { world.RemoveBlock(name); });
  // Apply vanished pods before Put and Remove: `vanished` has the pods' last states, and the world keeps only the first
  // note about a vanished pod.
  for (const auto& [pod, was_seen] : vanished) {
    if (was_seen) {
      world.pods.ObserveDeletion(pod, now);
    } else {
      world.pods.NoteAbsent(pod, now);
    }
  }
  ApplyEach(
      std::move(pods),
      world.pods.all(),
      [&](SeenPod pod) { world.pods.Put(std::move(pod), now); },
      [&](const PodKey& key) { world.pods.Remove(key, now); });
  // Set the version after the vanished pods: a pod that vanished in this fetch still existed at the previous version.
  world.pods.AdvanceTo(pods_version);
  ApplyEach(
      std::move(nodes),
      world.nodes.all(),
      [&world, now](SeenNode node) { world.nodes.PutShown(std::move(node), now); },
      [&world](const std::string& name) { world.nodes.Remove(name); });
  ApplyEach(
      std::move(leases),
      world.nodes.renewals(),
      [&world](SeenLease lease) { world.nodes.PutLease(std::move(lease)); },
      [&world](const std::string& name) { world.nodes.RemoveLease(name); });
  ApplyEach(
      std::move(allocations),
      world.allocations.all(),
      [&world](SeenAllocation allocation) { world.allocations.Put(std::move(allocation)); },
      [&world](const AllocationKey& key) { world.allocations.Remove(key); });
}

void Mailbox::ObserveDeletion(SeenPod pod, std::uint64_t version) {
  const Lock lock(mutex_);
  if (version != 0) pods_version_ = version;
  Of<SeenPod>().changes.insert_or_assign(NamespacedName(pod.name_space, pod.name), Change<SeenPod>());
  vanished_.emplace_back(std::move(pod), true);
  Ring<SeenPod>();
}

void Mailbox::NoteReplaced(const std::map<PodKey, SeenPod>& listed, std::uint64_t version) {
  if (version != 0) {
    if (pods_version_ == 0) first_pods_version_ = version;
    pods_version_ = version;
  }
  for (auto& [key, change] : Of<SeenPod>().changes) {
    if (!change.object) continue;
    const auto found = listed.find(key);
    if (found != listed.end() && found->second.identity() == change.object->identity()) continue;
    vanished_.emplace_back(*std::move(change.object), false);
  }
}

void Mailbox::AdvancePodsTo(std::uint64_t version) {
  const Lock lock(mutex_);
  pods_version_ = version;
}

bool Mailbox::IsLoaded() const {
  const Lock lock(mutex_);
  return Has<SeenPool>() && Has<crds::Space>() && Has<SeenReservation>() && Has<SeenBlock>();
}

bool Mailbox::WaitUntil(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) {
  Lock lock(mutex_);
  news_.wait_until(
      lock.native(), stop, deadline, [this]() BERTH_REQUIRES(mutex_) { return has_news_ || has_low_priority_news_; });
  if (!has_news_ && has_low_priority_news_) {
    deadline = std::min(deadline, std::chrono::steady_clock::now() + kLowPriorityPause);
    news_.wait_until(lock.native(), stop, deadline, [this]() BERTH_REQUIRES(mutex_) { return has_news_; });
  }
  return !stop.stop_requested();
}

}  // namespace berth::reconciler
