// SPDX-License-Identifier: Apache-2.0
// How containers and their pods end: one before the other, late, or only when the machine goes down.
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include <nlohmann/json.hpp>

#include "sim/kubelet.h"

namespace berth::sim {

using namespace std::chrono_literals;

namespace {

// If no agent looks for a sandbox, an address stays held for at least this long after a deletion by force, or after the
// pod has ended (docs/controller.md). The duration of one suspension of the machines is subtracted.
constexpr std::chrono::seconds kForcedMax{570};
constexpr std::chrono::seconds kEndedMax{60};
// If an agent looks for the sandbox, the sandbox may live for ever. The limit lets the history end.
constexpr std::chrono::minutes kSandboxMax{25};
// Longest time from the deletion of a pod to its late DEL.
constexpr std::chrono::minutes kLateDelMax{20};
// Longest time that a pod is Terminating after its grace period.
constexpr std::chrono::minutes kTerminatingMax{3};

std::chrono::milliseconds AnyTime(std::chrono::milliseconds most) {
  return std::chrono::milliseconds(Below(static_cast<std::uint64_t>(most.count()) + 1));
}

}  // namespace

void Kubelet::End(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  if (MayEndSlowly(container) && Below(4) == 0) return EndSlowly(container);
  // No pod with a wrong UID is deleted by force: the controller frees an address of an unknown pod as soon as no pod
  // has it.
  const bool may_be_forced = options_.cluster != nullptr && !pod.is_static && !options_.tells_odd_uids;
  const bool is_forced = may_be_forced && Below(6) == 0;
  // A person deletes the pod, or the pod ends by itself.
  const bool is_deleted = options_.cluster != nullptr && !pod.is_static && !is_forced && Below(3) != 0;
  if (is_deleted) options_.cluster->MarkTerminating(pod);
  if (!is_forced) return pod.units > 0 ? EndScheduled(container) : Finish(container);
  // The pod is deleted by force. The kubelet ends the container when it sees the deletion, unless the container hangs.
  constexpr std::uint64_t kHangsOneIn = 20;
  const bool hangs = may_hang_ && node_.has_agents() && has_own_blocks() && Below(kHangsOneIn) == 0;
  options_.cluster->RemovePod(pod);
  options_.cluster->AwaitConnection(node_.name());
  std::this_thread::sleep_for(AnyTime(pod.grace));
  if (hangs) Hang(container);
  Del(container);
}

void Kubelet::Hang(const std::string& container) {
  // The container lives until after the controller has freed its address.
  constexpr std::chrono::minutes kAtLeast{9};
  constexpr std::uint64_t kSpreadMs = 240'000;
  story_.Tell(container + " hangs");
  for (const Interface& one : InterfacesOf(container)) {
    for (const auto& checker : checkers_) checker->Hangs(AttachmentOf(one));
  }
  const int boot = boots_;
  const Nanos end = Now() + kAtLeast + std::chrono::milliseconds(Below(kSpreadMs));
  // Looks every 5 s whether the machine has gone down, because nothing wakes this thread.
  while (Now() < end && boot == boots_) std::this_thread::sleep_for(5s);
}

void Kubelet::EndScheduled(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  if (Below(3) == 0) options_.cluster->MarkTerminating(pod);
  if (Below(3) == 0 && options_.cluster->IsConnected(node_.name())) {
    options_.cluster->MarkEnded(pod, "Succeeded");
    return Del(container);
  }
  Finish(container);
}

void Kubelet::Finish(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  // A static pod always gets a DEL: nothing else shows that it is gone.
  if (options_.loses_dels && options_.cluster != nullptr && !pod.is_static && Below(6) == 0) {
    Lose(container);
  } else {
    Del(container);
  }
  if (options_.cluster != nullptr) options_.cluster->EndPod(pod);
}

void Kubelet::Lose(const std::string& container) {
  story_.Tell("no DEL of " + container);
  LetGo(container);
  for (const Interface& one : InterfacesOf(container)) lost_.insert(AttachmentOf(one));
  valid_.erase(container);
  node_.RemoveNetns(container);
}

void Kubelet::EndAllPods(bool by_force, bool forgets) {
  for (const std::string& container : std::set<std::string>(settled_)) {
    const Pod pod = valid_.at(container).pod;
    if (pod.is_static) continue;
    by_force ? options_.cluster->RemovePod(pod) : options_.cluster->MarkTerminating(pod);
    if (!forgets) {
      FinishLater(container);
      continue;
    }
    settled_.erase(container);
    Lose(container);
    options_.cluster->EndPod(pod);
  }
}

bool Kubelet::MayEndSlowly(const std::string& container) const {
  if (!options_.ends_slowly || !may_hang_ || options_.cluster == nullptr || options_.tells_odd_uids) return false;
  return !valid_.at(container).pod.is_static && told_.contains(AttachmentOf(InterfacesOf(container).front()));
}

void Kubelet::EndSlowly(const std::string& container) {
  static constexpr std::array kWays{
      &Kubelet::StayTerminating, &Kubelet::OutliveForce, &Kubelet::OutlivePhase, &Kubelet::DelLate};
  ++ending_;
  Spawn(process_, [this, container, way = kWays.at(Below(kWays.size()))] {
    options_.cluster->AwaitConnection(node_.name());
    const auto told = told_.find(AttachmentOf(InterfacesOf(container).front()));
    if (told != told_.end()) {
      options_.cluster->TellAddresses(told->second.pod, node_.name(), AddressesIn(told->second.result));
      (this->*way)(container);
    } else {
      Finish(container);
    }
    --ending_;
  });
}

void Kubelet::StayTerminating(const std::string& container) {
  story_.Tell(container + " does not end in time");
  const Pod pod = valid_.at(container).pod;
  options_.cluster->MarkTerminating(pod);
  SleepHere(pod.grace + AnyTime(kTerminatingMax));
  Finish(container);
}

void Kubelet::OutliveForce(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  if (Below(2) == 0) {
    options_.cluster->MarkTerminating(pod);
    SleepHere(AnyTime(kTerminatingMax));
  }
  story_.Tell(container + " outlives its pod, which is deleted by force");
  options_.cluster->RemovePod(pod);
  options_.cluster->AwaitConnection(node_.name());
  // The kubelet renews its Lease while its watch of pods hangs, or the container cannot be killed.
  Outlive(container, kForcedMax);
  Del(container);
}

void Kubelet::OutlivePhase(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  options_.cluster->AwaitConnection(node_.name());
  options_.cluster->MarkPhase(pod, Below(2) == 0 ? "Succeeded" : "Failed");
  if (Below(2) == 0) {
    story_.Tell(container + " outlives its pod, which has ended and is deleted by force");
    options_.cluster->RemovePod(pod);
    Outlive(container, kForcedMax);
  } else {
    Outlive(container, pod.has_long_grace ? kForcedMax : std::max(kEndedMax, pod.grace));
  }
  Del(container);
  options_.cluster->TellAddresses(pod, node_.name(), {});
}

void Kubelet::Outlive(const std::string& container, std::chrono::seconds promised) {
  if (!node_.has_agents()) return SleepHere(AnyTime(promised));
  const std::chrono::seconds grace = valid_.at(container).pod.grace;
  SleepHere(grace);
  // From now on the controller may free addresses in the node's own blocks, because the agent looks for the sandbox. In
  // Shared blocks, the controller frees nothing before `promised` has passed.
  for (const Interface& one : InterfacesOf(container)) {
    for (const auto& checker : checkers_) checker->Hangs(AttachmentOf(one));
  }
  SleepHere(AnyTime(has_own_blocks() ? kSandboxMax : promised - grace));
}

void Kubelet::DelLate(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  story_.Tell("a late DEL of " + container);
  LetGo(container);
  node_.RemoveNetns(container);
  options_.cluster->EndPod(pod);
  SleepHere(AnyTime(kLateDelMax));
  Del(container);
}

void Kubelet::SleepHere(std::chrono::milliseconds time) {
  const int boot = boots_;
  const Nanos end = Now() + time;
  // Looks every 5 s whether the machine has gone down, because nothing wakes this thread.
  while (Now() < end && boot == boots_) std::this_thread::sleep_for(std::min<Nanos>(5s, end - Now()));
}

}  // namespace berth::sim
