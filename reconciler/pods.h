// SPDX-License-Identifier: Apache-2.0
// Pods: which pods may hold addresses, as far as the controller saw, and which pods vanished.
//
// Each pod is stored with only the fields that matter, because a cluster may have 100,000 pods. If the controller saw
// the deletion of a pod, it knows how long the end of the pod may take, and keeps the pod's addresses only for that
// time (decide_orphans.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
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
[[nodiscard]] inline std::string NamespacedName(const std::string& name_space, const std::string& name) {
  return name_space + '/' + name;
}
using PodKey = std::string;  // NamespacedName

// Identifies a pod among all pods that have had its name. The identity alone is not enough: anybody may write any
// identity into a pod's annotation config.mirror, and such a pod must not count as another pod.
using PastPod = std::pair<PodKey, std::string>;  // the name, and SeenPod::identity()

// Units of `ipam.berth.dev/<resource>` that a pod requests.
struct UnitRequest {
  std::string resource;  // without the prefix: "ipv4"
  std::int64_t units = 0;
  friend auto operator<=>(const UnitRequest&, const UnitRequest&) = default;
};

struct SeenPod {
  std::string name_space = {};
  std::string name = {};
  std::string uid = {};
  std::string node = {};  // empty: not bound yet
  // From the mirror of a static pod: the hash of the pod's configuration, which the kubelet gives to the runtime as the
  // pod's UID. Empty: the pod is not a mirror.
  std::string config_hash = {};
  std::vector<ipam::Address> addresses = {};  // status.podIPs
  std::chrono::seconds grace{30};             // the longest time that the end of the pod may take
  bool is_terminal = false;                   // Succeeded or Failed
  bool is_host_network = false;
  bool is_cascading = false;  // deleted in the foreground: what the pod owns is deleted first, while the pod runs
  std::size_t owner = 0;      // hash of the UID of the pod's controller, such as a ReplicaSet; 0: none
  // True if the pod has its network. `addresses` cannot show this: after a sandbox has ended, the kubelet reports the
  // sandbox's addresses until the next sandbox has other addresses.
  bool has_sandbox = false;
  std::vector<UnitRequest> requests = {};  // one for each resource, all above 0
  // One unit of each resource in the pod's annotation ipam.berth.dev/resources; nullptr: there is no such annotation.
  std::shared_ptr<const std::vector<UnitRequest>> named = {};
  // The scheduler found no node for the pod (condition PodScheduled=False, reason Unschedulable) and tries again.
  bool is_unschedulable = false;
  // The nodes on which the pod may run; from SharedPlacement. nullptr unless waits_for_node(), because the controller
  // uses the placement only for such a pod; and nullptr if the placement exceeds a limit of SharedPlacement.
  std::shared_ptr<const Placement> placement = {};

  // True if the scheduler found no node for the pod, and a new block on a node may change this if the pod needs
  // addresses.
  [[nodiscard]] bool waits_for_node() const {
    return is_unschedulable && node.empty() && !(is_host_network && requests.empty());
  }
  // The pod is bound to a node and has not ended: the scheduler and the kubelet subtract its requests there.
  [[nodiscard]] bool IsActive() const { return !node.empty() && !is_terminal; }
  // A kubelet has started the pod, and the pod has not ended. spec.nodeName alone proves nothing, because anybody may
  // write it.
  [[nodiscard]] bool IsLiving() const { return IsActive() && !addresses.empty(); }
  // The addresses that the pod needs. `defaults`: the needs of a pod that states none; nullptr: pods have to request
  // addresses.
  [[nodiscard]] const std::vector<UnitRequest>& Needs(const std::vector<UnitRequest>* defaults) const {
    if (defaults == nullptr || !requests.empty() || is_host_network) return requests;
    return named != nullptr ? *named : *defaults;
  }
  // The UID by which an entry names the pod.
  [[nodiscard]] const std::string& identity() const { return config_hash.empty() ? uid : config_hash; }
  // The pod has addresses, and `address` is not among them.
  [[nodiscard]] bool HasOthersThan(const ipam::Address& address) const {
    return !addresses.empty() && std::ranges::find(addresses, address) == addresses.end();
  }
  // The pod has addresses of its own, and uses them now.
  [[nodiscard]] bool HasOwnAddress() const {
    return has_sandbox && !node.empty() && !addresses.empty() && !is_terminal && !is_host_network;
  }
  // No sandbox of the pod exists, and the kubelet makes none. While a kubelet pulls the images of a new pod, it may not
  // have reported the pod's sandbox yet: before Kubernetes 1.36 it reports the sandbox only after the pull. So a
  // missing report is no proof. But a kubelet gives each pod that it has ended a terminal phase before it removes the
  // pod.
  [[nodiscard]] bool HasEndedSandbox() const { return !has_sandbox && (is_terminal || node.empty()); }
  [[nodiscard]] bool wants_address() const {
    return !node.empty() && addresses.empty() && !is_terminal && !is_host_network;
  }
  friend bool operator==(const SeenPod&, const SeenPod&) = default;
};

// The state of a pod's sandbox when the pod was gone.
enum class SandboxAtEnd : std::uint8_t {
  kEnded,    // the kubelet had reported the sandbox's end, or the deleted pod was on no node (HasEndedSandbox)
  kUnseen,   // nobody saw the deletion, and the pod may have had a sandbox then
  kRunning,  // the sandbox may have existed at the deletion: somebody deleted the pod by force
};

struct VanishedPod {
  SteadyTime at;
  std::chrono::seconds grace{0};  // how long the end of the pod may take
  SandboxAtEnd sandbox = SandboxAtEnd::kEnded;
  std::uint64_t version = 0;  // a resourceVersion at which the pod still existed; 0: unknown
};

class Pods {
 public:
  void Put(SeenPod pod, SteadyTime now);
  // The pod is gone, and nobody saw its deletion.
  void Remove(const PodKey& key, SteadyTime now);
  // Notes that the watch saw the deletion of a pod that Put may not have got. `pod`: its last state. Does not remove
  // the pod from all().
  void ObserveDeletion(const SeenPod& pod, SteadyTime now);
  // Notes that the pod is gone, and that nobody saw its deletion. Does not remove the pod from all().
  void NoteAbsent(const SeenPod& pod, SteadyTime now);

  [[nodiscard]] const SeenPod* Find(const PodKey& key) const;
  [[nodiscard]] const std::map<PodKey, SeenPod>& all() const { return pods_; }
  [[nodiscard]] bool IsAnyLivingOn(const std::string& node) const { return living_on_.contains(node); }

  // True if the pod is being deleted in the foreground, or will be in a moment, because other pods of its owner are
  // being deleted in the foreground.
  [[nodiscard]] bool IsCascading(const SeenPod& pod) const;

  // Pods that are bound to a node and want an address of their own, and since when they were seen without one.
  [[nodiscard]] const std::map<PodKey, SteadyTime>& waiting() const { return waiting_; }

  // nullptr: the controller has not seen that the pod vanished, or has forgotten the pod.
  [[nodiscard]] const VanishedPod* FindVanished(const PastPod& pod) const;
  // Forgets the pods that vanished earlier than `before`, except pods for which `is_kept` returns true.
  void ForgetVanished(SteadyTime before, const std::function<bool(const PastPod& pod)>& is_kept);

  // The resourceVersion up to which the controller has seen all changes of pods; 0: none.
  void AdvanceTo(std::uint64_t version) { version_ = version; }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // The version from which the next leader has to watch pods to see every deletion since `after`.
  [[nodiscard]] std::uint64_t VersionToBeginWith(SteadyTime after) const;
  // A version at which the pod still existed, if it vanished since `after`; otherwise 0.
  [[nodiscard]] std::uint64_t VersionOfVanished(const PastPod& pod, SteadyTime after) const;

  // Keys of pods that changed or vanished since the last ForgetTouched; a key may occur twice.
  [[nodiscard]] const std::vector<PodKey>& touched() const { return touched_; }
  void ForgetTouched() { touched_.clear(); }

 private:
  void NoteVanished(const SeenPod& pod, SandboxAtEnd sandbox, SteadyTime now);
  void CountIn(const SeenPod& pod);
  void CountOut(const SeenPod& pod);
  void TouchAllOf(std::size_t owner);

  std::map<PodKey, SeenPod> pods_;
  std::unordered_map<std::string, std::size_t> living_on_;  // number of living pods (IsLiving), by node
  std::unordered_map<std::size_t, std::size_t> cascading_;  // number of pods with is_cascading, by owner
  std::map<PastPod, VanishedPod> vanished_;
  std::map<PodKey, SteadyTime> waiting_;
  std::vector<PodKey> touched_;
  std::uint64_t version_ = 0;
};

}  // namespace berth::reconciler
