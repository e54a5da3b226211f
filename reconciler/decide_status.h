// SPDX-License-Identifier: Apache-2.0
// Computes the statuses of pools and spaces, and decides which differences are written at once.
//
// Every agent of the cluster watches pools. So if a change of counts matters, the controller writes it at most once a
// second, and otherwise at most every 10 s. A change of a pool's counts matters in four cases: the total changes; the
// number of free addresses becomes 0 or is no longer 0; the list of claimable blocks becomes empty or is no longer
// empty; the number of blocks reaches half of the possible blocks or falls below it. Conditions, withheld addresses and
// acceptance are written at once.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crds/pool.h"
#include "crds/space.h"
#include "reconciler/census.h"
#include "reconciler/decide_acceptance.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Minimum time between two writes of an object's counts.
inline constexpr std::chrono::seconds kCountsPeriod{10};
// The same for counts that matter, since a pool with one free address may become full and not full many times a second.
inline constexpr std::chrono::seconds kCountsPeriodMin{1};

// The wanted condition Ready.
struct Readiness {
  bool is_ready = false;
  Reason why;
};

// `is_accepted`: the space's status.accepted contains the pool. `refused` may be null. nullopt: the controller has
// neither accepted nor refused the pool.
[[nodiscard]] std::optional<Readiness> ReadinessOf(const SeenPool& pool, bool is_accepted, const Reason* refused);

// Sets only the condition Ready.
void SetReadiness(crds::PoolStatus& status, const SeenPool& pool, const Readiness& readiness, const Now& now);

// The condition is False while the brake holds back entries of the pool (decide_orphans.h): the controller then frees
// no entry at all. A pool has no such condition if the controller does not free orphans (--reclaim) and the brake does
// not hold back entries.
inline constexpr std::string_view kReclaimingCondition = "Reclaiming";

// If the brake holds back entries of the pool (decide_orphans.h), sets the condition Reclaiming to False. If the brake
// holds back none and the condition was False, sets it to True.
void SetReclaiming(crds::PoolStatus& status, const SeenPool& pool, std::size_t held_back, const Now& now);

// The condition is True while pods have addresses whose entries name other pods.
inline constexpr std::string_view kContestedCondition = "Contested";

// Sets the condition Scarce. A pool whose blocks were never scarce does not get the condition (decide_blocks.h).
void SetScarce(crds::PoolStatus& status, const SeenPool& pool, bool is_scarce, const Now& now);

// The condition is False while no Node's address count includes the pool's free addresses, because the
// namespaceSelectors of the resource's pools differ (counts.h).
inline constexpr std::string_view kCountedCondition = "Counted";

// If the pool has another namespaceSelector than other pools of its resource, sets the condition Counted to False. If
// the selectors are equal and the condition was False, sets the condition to True.
void SetCounted(crds::PoolStatus& status, const SeenPool& pool, bool is_mixed, const Now& now);

// A status to write. If only counts differ and are not due yet, the status keeps the old counts, and `wake` says when
// they are due.
template <typename Status>
struct Wanted {
  Status status;
  bool has_new_counts = false;  // or a new text of Contested, for which the same limit applies
  std::optional<SteadyTime> wake;
};

struct Pace {
  std::optional<SteadyTime> counts_written;  // when counts of the object were last written; nothing: unknown
  const Now& now;
};

// If addresses are contested, sets the condition Contested to True. If none is contested and the condition was True,
// sets it to False (decide_lost.h). If the condition stays True and only the contested addresses differ, writes the new
// text only as often as counts.
void SetContested(Wanted<crds::PoolStatus>& wanted, const SeenPool& pool,
                  const std::vector<ContestedAddress>& contested, const Pace& pace);

// The status of an accepted pool. `counted.pool.withheld`: the addresses to withhold from the pool.
[[nodiscard]] Wanted<crds::PoolStatus> StatusOfAccepted(const SeenPool& pool, const CountedPool& counted,
                                                        const PoolCounts& counts, const Readiness& readiness,
                                                        const Pace& pace);

// `wanted`: the space with its future list of accepted pools and future withheld addresses, otherwise as it was read.
[[nodiscard]] Wanted<crds::Space> StatusOfSpace(const crds::Space& current, crds::Space wanted,
                                                const SpaceCounts& counts, const Pace& pace);

}  // namespace berth::reconciler
