// SPDX-License-Identifier: Apache-2.0
// Has the rules of acceptance, and the messages about refused pools.
#include "reconciler/decide_acceptance.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "crds/names.h"
#include "ipam/block.h"
#include "reconciler/decide_drain.h"

namespace berth::reconciler {

namespace {

using crds::AcceptedPool;

std::string Cut(int length) { return "/" + std::to_string(length) + " blocks"; }

// True if the list still needs the entry: its pool exists and is not being deleted, or a block of the pool exists.
bool IsNeeded(const World& world, const std::string& space, const AcceptedPool& entry) {
  const SeenPool* pool = world.FindPoolByUid(entry.uid);
  if (pool != nullptr && !pool->meta.deleting()) return true;
  return std::ranges::any_of(world.blocks(),
                             [&](const auto& item) { return item.second.MayBelongTo(entry.uid, space, entry.subnet); });
}

Reason ConflictWithPool(const ipam::Pool& pool, const AcceptedPool& other) {
  std::string message = "spec.subnet " + pool.subnet.ToString() + " overlaps pool " + other.pool + " (" +
                        other.subnet.ToString() + "), which is cut into " + Cut(other.block_length) +
                        ", while this pool is cut into " + Cut(pool.BlockLength()) +
                        "; in one space, overlapping pools must have blocks of the same size: delete this pool and "
                        "create it ";
  // If the subnet is smaller than a block of the other pool, another blockSize does not help: the subnet is one block
  // in any case.
  if (pool.subnet.length() <= other.block_length) {
    message += "with blockSize " + std::to_string(other.block_length) + ", or ";
  }
  message += "with another subnet or space, or delete pool " + other.pool;
  return {.reason = "BlockSizeConflict", .message = std::move(message)};
}

Reason ConflictWithBlock(const ipam::Pool& pool, const SeenBlock& block) {
  std::string message = "block " + block.name + ", left by an earlier pool, overlaps spec.subnet " +
                        pool.subnet.ToString() + ", but this pool is cut into " + Cut(pool.BlockLength()) +
                        "; wait until the block is empty and gone (kubectl get ipblock " + block.name + ")";
  if (pool.subnet.length() <= block.cidr.length()) {
    message += ", or delete this pool and create it with blockSize " + std::to_string(block.cidr.length());
  }
  return {.reason = "BlockSizeConflict", .message = std::move(message)};
}

std::optional<Reason> WhyConflicting(const World& world, const ipam::Pool& pool,
                                     const std::vector<AcceptedPool>& list) {
  const int length = pool.BlockLength();
  for (const AcceptedPool& other : list) {
    if (other.uid != pool.uid && other.block_length != length && other.subnet.Overlaps(pool.subnet)) {
      return ConflictWithPool(pool, other);
    }
  }
  for (const auto& [name, block] : world.blocks()) {
    if (block.space == pool.space && block.cidr.length() != length && block.cidr.Overlaps(pool.subnet)) {
      return ConflictWithBlock(pool, block);
    }
  }
  if (list.size() >= crds::kAcceptedMax) {
    return Reason{.reason = "SpaceFull",
                  .message = "space " + pool.space + " has " + std::to_string(crds::kAcceptedMax) +
                             " pools already; delete one, or create this pool in another space"};
  }
  return std::nullopt;
}

bool Contains(const std::vector<AcceptedPool>& list, const std::string& uid) {
  return std::ranges::any_of(list, [&](const AcceptedPool& entry) { return entry.uid == uid; });
}

// Sorts Ready pools first: their space accepted them before, and only the list was lost. Sorts the other pools by age,
// the oldest first.
std::vector<const SeenPool*> Candidates(const World& world, const std::vector<std::string>& names) {
  std::vector<const SeenPool*> candidates;
  for (const std::string& name : names) {
    const SeenPool& pool = world.pools.at(name);
    if (!pool.meta.deleting()) candidates.push_back(&pool);
  }
  std::ranges::sort(candidates, {}, [](const SeenPool* pool) {
    return std::tuple(!pool->IsReady(), pool->created, pool->meta.name);
  });
  return candidates;
}

Reason InvalidBecause(std::string_view message) {
  // A message begins with the field that it is about.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kReasons = {{
      {"spec.ranges", "InvalidRange"},
      {"spec.exclude", "InvalidExclude"},
      {"spec.gateway", "InvalidGateway"},
      {"spec.routes", "InvalidRoute"},
      {"spec.blockSize", "InvalidBlockSize"},
      {"spec.subnet", "NothingAssignable"},
  }};
  const auto about = std::ranges::find_if(kReasons, [&](const auto& item) { return message.starts_with(item.first); });
  return {.reason = std::string(about == kReasons.end() ? "InvalidSpec" : about->second),
          .message = std::string(message)};
}

}  // namespace

std::optional<Reason> WhyInvalid(const SeenPool& seen) {
  if (!seen.pool) {
    // Removes "IPPool web: " from the problem: the condition is on this pool.
    std::string_view problem = seen.problem;
    const std::string object = std::string(crds::kPoolKind) + " " + seen.meta.name + ": ";
    if (problem.starts_with(object)) problem.remove_prefix(object.size());
    return InvalidBecause(problem);
  }
  const auto valid = ipam::Validate(*seen.pool);
  if (valid) return std::nullopt;
  const Error& error = valid.error();
  return InvalidBecause(error.message + (error.details.empty() ? "" : "; " + error.details));
}

Acceptance DecideAcceptance(const World& world, const std::string& space, const std::vector<std::string>& names,
                            const std::vector<AcceptedPool>& current) {
  Acceptance result;
  for (const AcceptedPool& entry : current) {
    if (IsNeeded(world, space, entry)) result.accepted.push_back(entry);
  }
  // Also contains the pools that only wait for their finalizer, so that no younger pool overtakes them.
  std::vector<AcceptedPool> tentative = result.accepted;
  for (const SeenPool* seen : Candidates(world, names)) {
    BERTH_CHECK(seen->pool.has_value());
    const ipam::Pool& pool = *seen->pool;
    if (Contains(result.accepted, pool.uid)) continue;
    std::optional<Reason> against = WhyInvalid(*seen);
    if (!against) against = WhyConflicting(world, pool, tentative);
    if (against) {
      result.refused.emplace(pool.name, *std::move(against));
      continue;
    }
    AcceptedPool entry{.pool = pool.name, .uid = pool.uid, .subnet = pool.subnet, .block_length = pool.BlockLength()};
    tentative.push_back(entry);
    if (HasFinalizer(seen->meta.finalizers, crds::kPoolFinalizer)) {
      result.accepted.push_back(std::move(entry));
    } else {
      result.need_finalizer.push_back(pool.name);
    }
  }
  return result;
}

}  // namespace berth::reconciler
