// SPDX-License-Identifier: Apache-2.0
// What the statuses of pools and spaces should say, and which differences are worth a write at once.
//
// Every agent of the cluster watches pools, so counts are written when they matter to somebody (nothing is left or
// something is again, no block can be claimed or one can again, half of the blocks exist), at most once a second, and
// otherwise at most every ten seconds. Conditions, withheld addresses and acceptance are written at once.
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

inline constexpr std::chrono::seconds kCountsPeriod{10};
// Of counts that matter: a pool that is full but for one address may become full and not full many times in a second.
inline constexpr std::chrono::seconds kCountsPeriodMin{1};

// What the condition Ready shall say.
struct Readiness {
  bool is_ready = false;
  Reason why;
};

// `is_accepted`: the space's list has it. `refused` may be null. Nothing: not decided yet.
[[nodiscard]] std::optional<Readiness> ReadinessOf(const SeenPool& pool, bool is_accepted, const Reason* refused);

// Sets the condition Ready and nothing else.
void SetReadiness(crds::PoolStatus& status, const SeenPool& pool, const Readiness& readiness, const Moment& now);

// False: so many of the pool's entries name pods that are gone that none is given back.
inline constexpr std::string_view kReclaimingCondition = "Reclaiming";

// Sets the condition Reclaiming to False if the brake holds back so many entries of the pool (decide_orphans.h), and,
// if it was False, to True if it holds back none.
void SetReclaiming(crds::PoolStatus& status, const SeenPool& pool, std::size_t held_back, const Moment& now);

// True: pods have addresses that are recorded for others.
inline constexpr std::string_view kContestedCondition = "Contested";

// Sets the condition Scarce, which stands there once blocks were scarce (decide_blocks.h).
void SetScarce(crds::PoolStatus& status, const SeenPool& pool, bool is_scarce, const Moment& now);

// False: the pool's free addresses are in no Node's number (counts.h).
inline constexpr std::string_view kCountedCondition = "Counted";

// Sets the condition Counted to False if the pool has another namespaceSelector than other pools of its resource, and,
// if it was False, to True once it has not.
void SetCounted(crds::PoolStatus& status, const SeenPool& pool, bool is_mixed, const Moment& now);

// A status as it shall be. Where only counts differ and need not be written yet, they are those it has, and `wake` says
// when they shall be.
template <typename Status>
struct Wanted {
  Status status;
  bool has_new_counts = false;  // or other words that are written as often
  std::optional<SteadyTime> wake;
};

struct Pace {
  std::optional<SteadyTime> counts_written;  // when counts of the object were last written, as far as is known
  const Moment& now;
};

// Sets the condition Contested to True if there are such addresses, and, if it was True, to False if there are none
// (decide_lost.h). That others are contested than before is written as often as counts are.
void SetContested(Wanted<crds::PoolStatus>& wanted, const SeenPool& pool,
                  const std::vector<ContestedAddress>& contested, const Pace& pace);

// The status of an accepted pool; `counted.pool.withheld` is what shall be withheld from it.
[[nodiscard]] Wanted<crds::PoolStatus> StatusOfAccepted(const SeenPool& pool, const CountedPool& counted,
                                                        const PoolCounts& counts, const Readiness& readiness,
                                                        const Pace& pace);

// `wanted` has the list of accepted pools and what is withheld as they shall be, and else is as it was read.
[[nodiscard]] Wanted<crds::Space> StatusOfSpace(const crds::Space& current, crds::Space wanted,
                                                const SpaceCounts& counts, const Pace& pace);

}  // namespace berth::reconciler
