// SPDX-License-Identifier: Apache-2.0
// IPAllocations: one for each attachment that holds addresses, made from its entries; deleted when they are gone.
//
// At most two writes for an attachment: one that makes it, one that deletes it; pods that live for less than two
// seconds cost none. Its owner is the pod, so Kubernetes' garbage collector deletes what this one forgot. Nothing that
// hands out addresses waits for it.
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

// Younger entries get none: most ADDs that fail later are taken back sooner, and so do very short pods; and the second
// family's entry may come a moment later. By this one's clock, since the last of them was seen.
inline constexpr std::chrono::milliseconds kAllocationAgeMin{2000};
// One that somebody deleted while its pod seems to live is not made again at once: if that was the collector, the watch
// of pods lags, and it would delete the next one as well.
inline constexpr std::chrono::milliseconds kAllocationGoneMin{5000};
// So many in a round, so that after an upgrade a hundred thousand of them do not hold up what matters.
inline constexpr std::size_t kAllocationsPerRound = 100;

// What is to become of one object, or of none.
enum class AllocationRuling : std::uint8_t { kNothing, kMake, kDelete, kLater };

struct AllocationFacts {
  bool is_held = false;                    // the attachment has entries
  bool is_settled = false;                 // and nothing happened to it lately
  const SeenPod* pod = nullptr;            // that the entries name; nullptr: it is not there, or another has its name
  bool is_cascading = false;               // the pod goes, and the collector deletes what it owns first
  const SeenAllocation* object = nullptr;  // nullptr: there is none
  // It was made before the entry of another family came, and is to be made anew.
  bool lacks_family = false;
  std::vector<EntryKey> entries = {};  // of the pod's own node: what another one writes in its name is not the pod's
};
[[nodiscard]] AllocationRuling RuleOnAllocation(const AllocationFacts& facts);

struct AllocationScope {
  const HeldEntries& held;
  const World& world;
  const Memory& memory;
};

class AllocationDecider {
 public:
  // Adds nothing before the objects were listed. Requires: world.knows_holders; every change of `held` is seen here;
  // since the last call nothing was forgotten as touched that was not seen here.
  void Decide(const AllocationScope& scope, const Moment& now, Decision& decision);

 private:
  // What an object would be made from.
  struct Holding {
    std::set<EntryKey> entries = {};
    SteadyTime settled;     // from when on it may be made
    bool is_again = false;  // it was there, and somebody deleted it
  };
  void Gather(const AllocationScope& scope, SteadyTime now);
  [[nodiscard]] AllocationFacts FactsOf(const AllocationScope& scope, const AllocationKey& key, SteadyTime now) const;
  // Adds what is to be done about it now, or puts it aside until something can be.
  void DecideOne(const AllocationScope& scope, const AllocationKey& key, SteadyTime now, Decision& decision);

  std::map<AllocationKey, Holding> holdings_;
  std::map<PodKey, std::set<AllocationKey>> by_pod_;
  // Objects about which something may have to be done, and those about which nothing can be before that time.
  std::set<AllocationKey> open_;
  std::set<std::pair<SteadyTime, AllocationKey>> later_;
  AllocationKey next_;  // whose turn it is
  bool saw_all_ = false;
};

}  // namespace berth::reconciler
