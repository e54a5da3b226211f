// SPDX-License-Identifier: Apache-2.0
// Sets conditions, and decides when to write counts.
#include "reconciler/decide_status.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/timestamp.h"
#include "crds/names.h"

namespace berth::reconciler {

namespace {

crds::Condition MakeCondition(std::string_view type, bool status, Reason why, std::int64_t generation, const Now& now) {
  return {.type = std::string(type),
          .status = status ? "True" : "False",
          .reason = std::move(why.reason),
          .message = std::move(why.message),
          .last_transition_time = FormatTimestamp(now.unix_ms),
          .observed_generation = generation};
}

// Sets observedGeneration of the condition, if it exists: status and message also hold for this generation of the pool.
void Confirm(std::vector<crds::Condition>& conditions, std::string_view type, std::int64_t generation) {
  const auto found = std::ranges::find(conditions, type, &crds::Condition::type);
  if (found != conditions.end()) found->observed_generation = generation;
}

void SetExhausted(crds::PoolStatus& status, std::int64_t generation, const PoolCounts& counts, const Now& now) {
  Reason why{.reason = "AddressesLeft", .message = "nodes can claim more blocks"};
  if (counts.free == 0) {
    why = {.reason = "NoAddressLeft",
           .message =
               "every address is held, cooling or reserved: add another pool, or if spec.ranges is set, enlarge it"};
  } else if (counts.claimable.empty()) {
    why = {.reason = "AllBlocksClaimed",
           .message =
               "no unclaimed block is left: if the pool's affinity is Node, a node whose blocks are full gets no more "
               "addresses"};
  }
  crds::SetCondition(status.conditions,
                     MakeCondition(crds::kExhaustedCondition, counts.free == 0, std::move(why), generation, now));
}

// While fewer than half of the blocks exist, nodes choose at random among all blocks; later they choose from
// `claimable`.
bool HasHalf(std::int64_t blocks, ipam::Uint128 blocks_max) {
  return static_cast<ipam::Uint128>(blocks) >= blocks_max - blocks_max / 2;
}

bool Matter(const crds::PoolStatus& current, const PoolCounts& counts) {
  return (current.free == 0) != (counts.free == 0) || current.total != counts.total ||
         current.claimable.empty() != counts.claimable.empty() ||
         HasHalf(current.blocks, counts.blocks_max) != HasHalf(counts.blocks, counts.blocks_max);
}

bool Differ(const crds::PoolStatus& current, const PoolCounts& counts) {
  return current.total != counts.total || current.used != counts.used || current.free != counts.free ||
         current.blocks != counts.blocks || current.claimable != counts.claimable;
}

bool Differ(const crds::Space& current, const SpaceCounts& counts) {
  return current.total != counts.total || current.used != counts.used || current.free != counts.free;
}

// The texts of at most 5 addresses, as many as fit into a condition: the API server refuses a status with a longer
// message.
std::string NamesOf(const std::vector<ContestedAddress>& contested) {
  constexpr std::size_t kNamedMax = 5;
  constexpr std::size_t kLengthMax = 4000;
  std::string names;
  std::size_t named = 0;
  for (; named < std::min(kNamedMax, contested.size()); ++named) {
    const std::string name = (named == 0 ? "" : "; ") + contested[named].text;
    if (names.size() + name.size() > kLengthMax) break;
    names += name;
  }
  if (named < contested.size()) names += "; and " + std::to_string(contested.size() - named) + " more";
  return names;
}

// The earliest time at which changed counts may be written; nothing: now.
std::optional<SteadyTime> NotBefore(const Pace& pace, bool matters) {
  if (!pace.counts_written) return std::nullopt;
  const SteadyTime due = *pace.counts_written + (matters ? kCountsPeriodMin : kCountsPeriod);
  return due <= pace.now.steady ? std::nullopt : std::optional(due);
}

}  // namespace

std::optional<Readiness> ReadinessOf(const SeenPool& pool, bool is_accepted, const Reason* refused) {
  const auto not_ready = [](std::string reason, std::string message) {
    return Readiness{.is_ready = false, .why = {.reason = std::move(reason), .message = std::move(message)}};
  };
  if (pool.meta.deleting()) {
    return not_ready(
        "Deleting",
        "the pool is being deleted: pods get no address from the pool, and the pool is removed when its last address "
        "is freed (kubectl get ipblocks --field-selector spec.pool=" +
            pool.meta.name +
            "). A block without entries stays as long as a pod has an address of the block (kubectl get pods -A "
            "-o wide)");
  }
  if (is_accepted || !pool.pool) {
    if (auto invalid = WhyInvalid(pool)) return Readiness{.is_ready = false, .why = *std::move(invalid)};
  }
  if (!is_accepted) return refused == nullptr ? std::nullopt : std::optional(Readiness{.why = *refused});
  BERTH_CHECK(pool.pool.has_value());  // otherwise WhyInvalid has said why
  if (pool.pool->disabled) {
    return not_ready(
        "Disabled",
        "spec.disabled is true: pods get no new address from this pool, and keep the addresses that they have; "
        "to enable the pool, set spec.disabled to false");
  }
  return Readiness{.is_ready = true,
                   .why = {.reason = "Accepted",
                           .message = "pods get addresses from this pool: space " + pool.pool->space + ", blocks of /" +
                                      std::to_string(pool.pool->BlockLength())}};
}

void SetReadiness(crds::PoolStatus& status, const SeenPool& pool, const Readiness& readiness, const Now& now) {
  crds::SetCondition(
      status.conditions,
      MakeCondition(crds::kReadyCondition, readiness.is_ready, readiness.why, pool.meta.generation, now));
}

void SetReclaiming(crds::PoolStatus& status, const SeenPool& pool, std::size_t held_back, const Now& now) {
  const crds::Condition* current = crds::FindCondition(status.conditions, kReclaimingCondition);
  const bool was_braked = current != nullptr && current->status == "False";
  if (was_braked == (held_back > 0)) return Confirm(status.conditions, kReclaimingCondition, pool.meta.generation);
  Reason why{.reason = "AsUsual", .message = "the controller frees addresses of pods that are gone"};
  if (held_back > 0) {
    why = {.reason = "TooManyOrphans",
           .message =
               "when this condition became False, " + std::to_string(held_back) +
               " entries named pods that do not exist and whose deletion the controller did not see. So many missing "
               "pods are probably a mistake: the controller frees no address until fewer entries name missing pods. "
               "If the pods are really gone, free their addresses with berthctl release. If the agent writes an entry "
               "again, end the container that has the address, or if you saw that no container has it, add --sure "
               "(docs/troubleshooting.md)"};
  }
  crds::SetCondition(status.conditions,
                     MakeCondition(kReclaimingCondition, held_back == 0, std::move(why), pool.meta.generation, now));
}

void SetContested(Wanted<crds::PoolStatus>& wanted, const SeenPool& pool,
                  const std::vector<ContestedAddress>& contested, const Pace& pace) {
  const crds::Condition* current = crds::FindCondition(wanted.status.conditions, kContestedCondition);
  const bool was_contested = current != nullptr && current->status == "True";
  Confirm(wanted.status.conditions, kContestedCondition, pool.meta.generation);
  if (contested.empty() && !was_contested) return;
  Reason why{.reason = "OneHolderEach", .message = "no pod has an address that is recorded for another pod"};
  if (!contested.empty()) {
    why = {.reason = "TwoHolders", .message = "delete one pod of each pair: " + NamesOf(contested)};
    if (was_contested && current->message == why.message) return;
    const auto due = was_contested && !wanted.has_new_counts ? NotBefore(pace, /*matters=*/false) : std::nullopt;
    if (due) {
      wanted.wake = std::min(wanted.wake.value_or(*due), *due);
      return;
    }
    wanted.has_new_counts = wanted.has_new_counts || was_contested;
  }
  crds::SetCondition(
      wanted.status.conditions,
      MakeCondition(kContestedCondition, !contested.empty(), std::move(why), pool.meta.generation, pace.now));
}

void SetScarce(crds::PoolStatus& status, const SeenPool& pool, bool is_scarce, const Now& now) {
  if (!is_scarce && crds::FindCondition(status.conditions, crds::kScarceCondition) == nullptr) return;
  Reason why{.reason = "BlocksForAll", .message = "there are enough blocks for every node"};
  if (is_scarce) {
    why = {
        .reason = "FewerBlocksThanNodes",
        .message =
            "more nodes need a block than the pool has unclaimed blocks. So the controller deletes empty blocks after "
            "a minute, and a node claims a block only when a pod needs the block. If pods wait, make a new pool with "
            "smaller blocks, or if spec.ranges is set, enlarge it"};
  }
  crds::SetCondition(status.conditions,
                     MakeCondition(crds::kScarceCondition, is_scarce, std::move(why), pool.meta.generation, now));
}

void SetCounted(crds::PoolStatus& status, const SeenPool& pool, bool is_mixed, const Now& now) {
  if (!is_mixed && crds::FindCondition(status.conditions, kCountedCondition) == nullptr) return;
  Reason why{.reason = "Counted",
             .message = "the numbers that Nodes show include the free addresses of this pool's blocks"};
  if (is_mixed) {
    why = {
        .reason = "MixedNamespaceSelectors",
        .message =
            "no Node's number includes free addresses of this pool, because another pool with the same spec.resource "
            "has another namespaceSelector. One number for both pools could include addresses that a pod's namespace "
            "may not get. Give this pool a spec.resource of its own"};
  }
  crds::SetCondition(status.conditions,
                     MakeCondition(kCountedCondition, !is_mixed, std::move(why), pool.meta.generation, now));
}

Wanted<crds::PoolStatus> StatusOfAccepted(const SeenPool& pool, const CountedPool& counted, const PoolCounts& counts,
                                          const Readiness& readiness, const Pace& pace) {
  Wanted<crds::PoolStatus> wanted{.status = pool.status, .has_new_counts = false, .wake = std::nullopt};
  crds::PoolStatus& status = wanted.status;
  status.block_length = counted.pool.BlockLength();
  status.withheld = counted.pool.withheld;
  SetReadiness(status, pool, readiness, pace.now);
  const bool is_written_anyway = status != pool.status;
  crds::PoolStatus counted_status = status;
  SetExhausted(counted_status, pool.meta.generation, counts, pace.now);
  if (counted_status == status && !Differ(pool.status, counts)) return wanted;
  if (!is_written_anyway) wanted.wake = NotBefore(pace, Matter(pool.status, counts));
  if (wanted.wake) return wanted;
  status = std::move(counted_status);
  wanted.has_new_counts = true;
  status.total = counts.total;
  status.used = counts.used;
  status.free = counts.free;
  status.blocks = counts.blocks;
  status.claimable = counts.claimable;
  return wanted;
}

Wanted<crds::Space> StatusOfSpace(const crds::Space& current, crds::Space wanted, const SpaceCounts& counts,
                                  const Pace& pace) {
  Wanted<crds::Space> result{.status = std::move(wanted), .has_new_counts = false, .wake = std::nullopt};
  if (!Differ(current, counts)) return result;
  const bool is_written_anyway =
      result.status.accepted != current.accepted || result.status.withheld != current.withheld;
  const bool matters = (current.free == 0) != (counts.free == 0) || current.total != counts.total;
  if (!is_written_anyway) result.wake = NotBefore(pace, matters);
  if (result.wake) return result;
  result.has_new_counts = true;
  result.status.total = counts.total;
  result.status.used = counts.used;
  result.status.free = counts.free;
  return result;
}

}  // namespace berth::reconciler
