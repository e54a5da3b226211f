// SPDX-License-Identifier: Apache-2.0
// Census: how many addresses pools and spaces have, hold and have left.
//
// Kept up rather than taken: a block is counted again only when it or the rules of its pool changed, or when an address
// in it has rested long enough; what depends on which blocks exist, only when one came or went. So a round over
// thousands of blocks costs about as much as looking at each once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ipam/address.h"
#include "ipam/interval_set.h"
#include "ipam/pool.h"
#include "ipam/prefix.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// A pool that is accepted and can be read, with the addresses in `pool.withheld` that are to be withheld from it.
struct CountedPool {
  ipam::Pool pool;
  std::int64_t generation = 0;  // of the object: with it, the spec changes
};

// By UID, the readable pools that their spaces have accepted, with what their statuses say is withheld.
[[nodiscard]] std::map<std::string, CountedPool> AcceptedPools(const World& world);

struct PoolCounts {
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
  std::int64_t blocks = 0;
  ipam::Uint128 blocks_max = 0;        // blocks it can be cut into
  ipam::Uint128 blocks_unclaimed = 0;  // of those, which nobody has, of whatever pool of the space
  std::vector<ipam::Prefix> claimable;
};

struct SpaceCounts {
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
};

class Census {
 public:
  // `pools` by UID, of all spaces. Afterwards OfPool and OfSpace answer for them.
  void Take(const World& world, const std::map<std::string, CountedPool>& pools, std::int64_t now_ms);

  // Requires: it was among the pools of the last Take.
  [[nodiscard]] const PoolCounts& OfPool(const std::string& uid) const;
  // The pool's assignable addresses that are in no block. Requires: as OfPool.
  [[nodiscard]] const ipam::IntervalSet& UnclaimedOf(const std::string& uid) const;
  // Free addresses in a block of a pool that was among those of the last Take; else 0.
  [[nodiscard]] std::uint32_t FreeIn(const std::string& block) const;
  // All 0 for a space without a pool.
  [[nodiscard]] SpaceCounts OfSpace(const std::string& space) const;
  // When the counts may change by time alone: the next cooling entry is over.
  [[nodiscard]] std::optional<std::int64_t> next_change_ms() const { return next_change_ms_; }

 private:
  // A pool's rules, kept as long as they stay the same.
  struct Rules {
    std::uint64_t id = 0;  // another one whenever the rules change
    std::int64_t generation = 0;
    std::vector<ipam::AddressRange> withheld;
    ipam::IntervalSet assignable;
    // What hangs on the block set too.
    std::uint64_t block_set_version = 0;
    ipam::IntervalSet unclaimed;  // assignable addresses in no block
    PoolCounts counts;
  };
  struct BlockCount {
    ipam::BlockView block;
    std::uint64_t rules_id = 0;
    std::uint32_t free = 0;
    std::int64_t valid_until_ms = 0;  // a cooling entry is over then
  };
  struct Space {
    std::vector<std::uint64_t> rules_ids;
    std::uint64_t block_set_version = 0;
    ipam::Uint128 total = 0;
    ipam::Uint128 unclaimed = 0;
    SpaceCounts counts;
  };

  void UpdateRules(const CountedPool& counted);
  void UpdateBlockSets(const World& world, const std::map<std::string, CountedPool>& pools);
  void CountBlocks(const World& world, const std::map<std::string, CountedPool>& pools, std::int64_t now_ms);
  [[nodiscard]] const BlockCount& Count(const SeenBlock& seen, const ipam::Pool& pool, std::uint64_t rules_id,
                                        std::int64_t now_ms);

  std::uint64_t last_rules_id_ = 0;
  std::map<std::string, Rules> rules_;        // by UID
  std::map<std::string, BlockCount> blocks_;  // by name
  std::map<std::string, Space> spaces_;       // by name
  std::uint64_t block_set_version_ = 0;
  std::optional<std::int64_t> next_change_ms_;
};

}  // namespace berth::reconciler
