// SPDX-License-Identifier: Apache-2.0
// Stores the pods, and remembers those that vanished.
#include "reconciler/pods.h"

#include <algorithm>
#include <utility>

namespace berth::reconciler {

namespace {

// If somebody deletes this many pods of one owner in the foreground, the controller expects that all pods of the owner
// will be deleted. Fewer pods may be deleted one by one, while the owner's other pods stay.
constexpr std::size_t kCascadeMin = 3;

}  // namespace

void Pods::Put(SeenPod pod, SteadyTime now) {
  PodKey key = NamespacedName(pod.name_space, pod.name);
  touched_.push_back(key);
  // Count the new state before the old state is subtracted. Otherwise the owner's number of cascading pods could fall
  // below kCascadeMin for a moment, and an update would touch all pods of the owner.
  CountIn(pod);
  const auto found = pods_.find(key);
  if (found != pods_.end()) {
    if (found->second.identity() != pod.identity()) {
      waiting_.erase(key);
      NoteAbsent(found->second, now);
    }
    CountOut(found->second);
  }
  if (!pod.wants_address()) {
    waiting_.erase(key);
  } else {
    waiting_.try_emplace(key, now);
  }
  // If the kubelet creates the mirror of a static pod again, the pod has not vanished.
  vanished_.erase({key, pod.identity()});
  pods_.insert_or_assign(std::move(key), std::move(pod));
}

void Pods::Remove(const PodKey& key, SteadyTime now) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  waiting_.erase(key);
  NoteAbsent(found->second, now);
  CountOut(found->second);
  pods_.erase(found);
}

void Pods::CountIn(const SeenPod& pod) {
  if (pod.IsLiving()) ++living_on_[pod.node];
  if (pod.is_cascading && pod.owner != 0 && ++cascading_[pod.owner] == kCascadeMin) TouchAllOf(pod.owner);
}

void Pods::CountOut(const SeenPod& pod) {
  if (pod.IsLiving() && --living_on_[pod.node] == 0) living_on_.erase(pod.node);
  if (!pod.is_cascading || pod.owner == 0) return;
  const std::size_t left = --cascading_[pod.owner];
  if (left == 0) cascading_.erase(pod.owner);
  if (left + 1 == kCascadeMin) TouchAllOf(pod.owner);
}

void Pods::TouchAllOf(std::size_t owner) {
  for (const auto& [key, pod] : pods_) {
    if (pod.owner == owner) touched_.push_back(key);
  }
}

bool Pods::IsCascading(const SeenPod& pod) const {
  if (pod.is_cascading || pod.owner == 0) return pod.is_cascading;
  const auto found = cascading_.find(pod.owner);
  return found != cascading_.end() && found->second >= kCascadeMin;
}

void Pods::ObserveDeletion(const SeenPod& pod, SteadyTime now) {
  NoteVanished(pod, pod.HasEndedSandbox() ? SandboxAtEnd::kEnded : SandboxAtEnd::kRunning, now);
}

void Pods::NoteAbsent(const SeenPod& pod, SteadyTime now) {
  // Since the controller last saw the pod, the scheduler may have bound the pod, and the pod's containers may run. But
  // a pod that was in a terminal phase stays terminal.
  const bool has_ended = pod.is_terminal && pod.HasEndedSandbox();
  NoteVanished(pod, has_ended ? SandboxAtEnd::kEnded : SandboxAtEnd::kUnseen, now);
}

void Pods::NoteVanished(const SeenPod& pod, SandboxAtEnd sandbox, SteadyTime now) {
  touched_.push_back(NamespacedName(pod.name_space, pod.name));
  // The first note counts: a second note of the same pod does not restart the waiting time.
  vanished_.try_emplace({touched_.back(), pod.identity()},
                        VanishedPod{.at = now, .grace = pod.grace, .sandbox = sandbox, .version = version_});
}

std::uint64_t Pods::VersionToBeginWith(SteadyTime after) const {
  std::uint64_t version = version_;
  for (const auto& [pod, vanished] : vanished_) {
    if (vanished.at >= after && vanished.version != 0) version = std::min(version, vanished.version);
  }
  return version;
}

std::uint64_t Pods::VersionOfVanished(const PastPod& pod, SteadyTime after) const {
  const auto found = vanished_.find(pod);
  return found != vanished_.end() && found->second.at >= after ? found->second.version : 0;
}

const SeenPod* Pods::Find(const PodKey& key) const {
  const auto found = pods_.find(key);
  return found == pods_.end() ? nullptr : &found->second;
}

const VanishedPod* Pods::FindVanished(const PastPod& pod) const {
  const auto found = vanished_.find(pod);
  return found == vanished_.end() ? nullptr : &found->second;
}

void Pods::ForgetVanished(SteadyTime before, const std::function<bool(const PastPod& pod)>& is_kept) {
  std::erase_if(vanished_, [&](const auto& item) { return item.second.at < before && !is_kept(item.first); });
}

}  // namespace berth::reconciler
