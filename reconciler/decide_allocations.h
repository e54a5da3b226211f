// SPDX-License-Identifier: Apache-2.0
// IPAllocations: the controller makes one for each attachment that holds addresses, from the attachment's entries, and
// deletes it when the entries are gone.
//
// An attachment usually costs two writes: one makes the object, and one deletes it. A pod that lives for less than two
// seconds costs none. The pod owns the object, so Kubernetes' garbage collector deletes objects that the controller
// forgot. No ADD waits for an IPAllocation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "crds/allocation.h"
#include "reconciler/decision.h"
#include "reconciler/held_entries.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Minimum time since the controller saw the attachment's newest entry, by the controller's clock. Within this time,
// most failing ADDs remove their entry, pods with a very short life end, and the entry of the second family comes.
inline constexpr std::chrono::milliseconds kAllocationAgeMin{2000};
// If an IPAllocation is deleted while the pod seems to live, the controller waits this long before it makes the object
// again. If the garbage collector deleted the object, the pod is gone, and the watch of pods lags. The collector would
// then delete a new object as well.
inline constexpr std::chrono::milliseconds kAllocationGoneMin{5000};
// Limit for one pass, so that 100,000 IPAllocations after an upgrade do not hold up more important actions.
inline constexpr std::size_t kAllocationsPerPass = 100;

// The decision about one IPAllocation.
enum class AllocationRuling : std::uint8_t { kNothing, kMake, kDelete, kLater };

struct AllocationFacts {
  bool is_held = false;     // the attachment has entries
  bool is_settled = false;  // the newest entry, and the deletion of the previous object, are old enough
  // The pod that the entries name. nullptr: the pod does not exist, has another identity or node than the entries, or
  // has too many entries.
  const SeenPod* pod = nullptr;
  bool is_cascading = false;  // the collector deletes the pod's objects before the pod, maybe soon (Pods::IsCascading)
  const SeenAllocation* object = nullptr;  // nullptr: there is none
  // The object was made before the entry of another family came, and must be made anew.
  bool lacks_family = false;
  // The entries that the pod's own node wrote. An entry that another node wrote with the pod's name does not count.
  std::vector<EntryKey> entries = {};
};
[[nodiscard]] AllocationRuling RuleOnAllocation(const AllocationFacts& facts);

struct AllocationScope {
  const HeldEntries& held;
  const World& world;
  const ControllerState& state;
};

class AllocationDecider {
 public:
  // Adds no action before the IPAllocations were listed. Requires: world.knows_holders; the caller calls Decide after
  // every update of `held`, and before ForgetTouched drops a touched key.
  void Decide(const AllocationScope& scope, const Now& now, Decision& decision);

 private:
  // The entries of one IPAllocation, whether the object exists or not.
  struct Holding {
    std::set<EntryKey> entries = {};
    SteadyTime settled;     // earliest time at which the object may be created
    bool is_again = false;  // an earlier object was deleted
  };
  void Gather(const AllocationScope& scope, SteadyTime now);
  [[nodiscard]] AllocationFacts FactsOf(const AllocationScope& scope, const AllocationKey& key, SteadyTime now) const;
  // Adds the action that is due for the object, or sets the object aside until an action is possible.
  void DecideOne(const AllocationScope& scope, const AllocationKey& key, SteadyTime now, Decision& decision);

  std::map<AllocationKey, Holding> holdings_;
  // Objects that may need an action, and objects that need none before the given time.
  std::set<AllocationKey> open_;
  std::set<std::pair<SteadyTime, AllocationKey>> later_;
  AllocationKey next_;  // the object whose turn it is
  bool saw_all_ = false;
};

}  // namespace berth::reconciler
