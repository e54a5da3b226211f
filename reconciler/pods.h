// SPDX-License-Identifier: Apache-2.0
// Pods: who may hold addresses, as far as was seen, and who was seen to go.
//
// Only what counts is kept of each, because a cluster has a hundred thousand. Whether a pod was seen to vanish decides
// how long its addresses are kept after that (decide_orphans.h): of one that was there when it went it is known how
// long it may take to end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ipam/address.h"
#include "reconciler/placement.h"

namespace berth::reconciler {

using SteadyTime = std::chrono::steady_clock::time_point;

// "<namespace>/<name>"
using PodKey = std::string;
[[nodiscard]] PodKey PodKeyOf(const std::string& name_space, const std::string& name);

// One pod of all that have had that name. With the name, because anybody may write any identity into a pod's annotation
// config.mirror: it says nothing of other pods.
using PastPod = std::pair<PodKey, std::string>;  // and SeenPod::identity()

// Units of `ipam.berth.dev/<resource>` that a pod requests.
struct UnitRequest {
  std::string resource;  // without the prefix: "ipv4"
  std::int64_t units = 0;
  friend bool operator==(const UnitRequest&, const UnitRequest&) = default;
};

struct SeenPod {
  std::string name_space = {};
  std::string name = {};
  std::string uid = {};
  std::string node = {};  // empty: not bound yet
  // Of the mirror of a static pod: the hash of its configuration, which the kubelet tells the runtime as the pod's UID.
  // Empty: not a mirror.
  std::string config_hash = {};
  std::vector<ipam::Address> addresses = {};  // status.podIPs
  std::chrono::seconds grace{30};             // the longest that its end may take
  bool is_terminal = false;                   // Succeeded or Failed
  bool is_host_network = false;
  bool is_cascading = false;  // deleted in the foreground: what it owns is deleted first, while it runs
  std::size_t owner = 0;      // hash of the UID of what controls it, such as a ReplicaSet; 0: nothing does
  // Its network is there. `addresses` alone do not say that: the kubelet keeps those of a sandbox that has ended until
  // the next one has others.
  bool has_sandbox = false;
  std::vector<UnitRequest> requests = {};  // one for each resource, all above 0
  // The resources that the pod's annotation ipam.berth.dev/resources names, one unit of each; null: it has none.
  std::shared_ptr<const std::vector<UnitRequest>> named = {};
  // The scheduler found no node for it (condition PodScheduled False, reason Unschedulable).
  bool is_unschedulable = false;
  // The nodes it may run on. Null unless the pod is unschedulable: only then it is looked at.
  std::shared_ptr<const Placement> placement = {};

  // It is bound to a node and has not ended: the scheduler and the kubelet subtract its requests there.
  [[nodiscard]] bool IsActive() const { return !node.empty() && !is_terminal; }
  // A kubelet has started it, and it has not ended. spec.nodeName alone proves nothing: anybody may write it.
  [[nodiscard]] bool IsLiving() const { return IsActive() && !addresses.empty(); }
  // The addresses that it needs. `defaults`: what a pod needs that does not say it; null: pods have to request
  // addresses.
  [[nodiscard]] const std::vector<UnitRequest>& Needs(const std::vector<UnitRequest>* defaults) const {
    if (defaults == nullptr || !requests.empty() || is_host_network) return requests;
    return named != nullptr ? *named : *defaults;
  }
  // By which an entry names it.
  [[nodiscard]] const std::string& identity() const { return config_hash.empty() ? uid : config_hash; }
  // It is known which addresses it has, and that this is none of them.
  [[nodiscard]] bool HasOthersThan(const ipam::Address& address) const {
    return !addresses.empty() && std::ranges::find(addresses, address) == addresses.end();
  }
  // And uses it now.
  [[nodiscard]] bool HasOwnAddress() const {
    return has_sandbox && !node.empty() && !addresses.empty() && !is_terminal && !is_host_network;
  }
  [[nodiscard]] bool wants_address() const {
    return !node.empty() && addresses.empty() && !is_terminal && !is_host_network;
  }
  friend bool operator==(const SeenPod&, const SeenPod&) = default;
};

// Whether a pod's sandbox had ended when the pod went.
enum class SandboxAtEnd : std::uint8_t {
  kEnded,   // so its kubelet had told, or there was none
  kUnseen,  // it was there when the pod was seen last, and nobody saw the pod go
  kThere,   // it was there when the pod went: somebody removed the pod by force
};

struct VanishedPod {
  SteadyTime at;
  std::chrono::seconds grace{0};  // how long its end may take
  SandboxAtEnd sandbox = SandboxAtEnd::kEnded;
  std::uint64_t version = 0;  // when it was still there
};

class Pods {
 public:
  void Put(SeenPod pod, SteadyTime now);
  // It is not there any more, as a list says.
  void Remove(const PodKey& key, SteadyTime now);
  // It was there, and went, maybe before it could be Put. `pod`: as it was last.
  void SawVanish(const SeenPod& pod, SteadyTime now);
  // It was in a list, and is not in the next.
  void NoteAbsent(const SeenPod& pod, SteadyTime now);

  [[nodiscard]] const SeenPod* Find(const PodKey& key) const;
  [[nodiscard]] const std::map<PodKey, SeenPod>& all() const { return pods_; }
  [[nodiscard]] bool IsAnyLivingOn(const std::string& node) const { return living_on_.contains(node); }

  // It is deleted in the foreground, or will be in a moment, as others of its owner are.
  [[nodiscard]] bool IsCascading(const SeenPod& pod) const;

  // Since when pods that are bound to a node and want an address of their own have been seen without one.
  [[nodiscard]] const std::map<PodKey, SteadyTime>& waiting() const { return waiting_; }

  // nullptr: it was not seen to vanish, or is forgotten.
  [[nodiscard]] const VanishedPod* FindVanished(const PastPod& pod) const;
  // Forgets who vanished before that time and is not kept.
  void ForgetVanished(SteadyTime before, const std::function<bool(const PastPod& pod)>& is_kept);

  // The API server's version up to which everything was seen; 0: none.
  void Reach(std::uint64_t version) { version_ = version; }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // The version from which one who begins anew has to look to see everything vanish that vanished since `after`.
  [[nodiscard]] std::uint64_t VersionToBeginWith(SteadyTime after) const;
  // At which that pod was still there, if it was seen to vanish since `after`; 0: it was not.
  [[nodiscard]] std::uint64_t VersionOfVanished(const PastPod& pod, SteadyTime after) const;

  // What was put or removed since the last ForgetTouched; a key may be there twice.
  [[nodiscard]] const std::vector<PodKey>& touched() const { return touched_; }
  void ForgetTouched() { touched_.clear(); }

 private:
  void NoteVanished(const SeenPod& pod, SandboxAtEnd sandbox, SteadyTime now);
  void CountIn(const SeenPod& pod);
  void CountOut(const SeenPod& pod);
  void TouchAllOf(std::size_t owner);

  std::map<PodKey, SeenPod> pods_;
  std::unordered_map<std::string, std::size_t> living_on_;  // how many, by node
  std::unordered_map<std::size_t, std::size_t> cascading_;  // how many, by owner
  std::map<PastPod, VanishedPod> vanished_;
  std::map<PodKey, SteadyTime> waiting_;
  std::vector<PodKey> touched_;
  std::uint64_t version_ = 0;
};

}  // namespace berth::reconciler
