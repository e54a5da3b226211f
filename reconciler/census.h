// SPDX-License-Identifier: Apache-2.0
// Census: how many addresses pools and spaces have in total, used and free.
//
// The census keeps its counts from pass to pass. The rules of a pool are its spec and its withheld addresses. The
// census counts a block again only when the block or the rules of its pool changed, or when a cooling entry of the
// block has ended. It computes numbers that depend on the set of blocks again only when a block came or went, or the
// rules of a pool changed. So a pass costs little more than one comparison for each block.
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

// An accepted pool that can be read. `pool.withheld` has the addresses that are to be withheld from the pool.
struct CountedPool {
  ipam::Pool pool;
  std::int64_t generation = 0;  // metadata.generation, which changes with the spec
};

// The readable pools that their spaces have accepted, by UID. Each has the withheld addresses of its own status.
[[nodiscard]] std::map<std::string, CountedPool> AcceptedPools(const World& world);

struct PoolCounts {
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
  std::int64_t blocks = 0;
  ipam::Uint128 blocks_max = 0;        // number of blocks into which the pool can be divided
  ipam::Uint128 blocks_unclaimed = 0;  // `blocks_max` minus the blocks, of any pool, that have addresses of this pool
  std::vector<ipam::Prefix> claimable;
};

struct SpaceCounts {
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
};

class Census {
 public:
  // Counts the world. `pools`: the pools of all spaces, by UID. Afterwards OfPool and OfSpace answer for these pools.
  void Take(const World& world, const std::map<std::string, CountedPool>& pools, std::int64_t now_ms);

  // Requires: the last Take got a pool with that UID.
  [[nodiscard]] const PoolCounts& OfPool(const std::string& uid) const;
  // The pool's assignable addresses that lie in no block. Requires: as OfPool.
  [[nodiscard]] const ipam::IntervalSet& UnclaimedOf(const std::string& uid) const;
  // Free addresses in a block; 0 if the last Take did not get the block's pool.
  [[nodiscard]] std::uint32_t FreeIn(const std::string& block) const;
  // All 0 if the last Take got no pool of the space.
  [[nodiscard]] SpaceCounts OfSpace(const std::string& space) const;
  // UNIX time (ms) at which the next cooling entry ends. The counts then change although no object changes.
  [[nodiscard]] std::optional<std::int64_t> next_change_ms() const { return next_change_ms_; }

 private:
  struct Rules {
    std::uint64_t id = 0;  // changes whenever the rules change
    std::int64_t generation = 0;
    std::vector<ipam::AddressRange> withheld = {};
    ipam::IntervalSet assignable = {};
    ipam::IntervalSet unclaimed = {};  // assignable addresses in no block
    PoolCounts counts = {};
  };
  struct BlockCount {
    ipam::BlockView block;
    std::uint64_t rules_id = 0;
    std::uint32_t free = 0;
    std::int64_t valid_until_ms = 0;  // UNIX time (ms) at which a cooling entry ends
  };
  struct Space {
    ipam::Uint128 total = 0;
    ipam::Uint128 unclaimed = 0;
    SpaceCounts counts;
  };

  // Returns true if the rules of a pool changed, or a pool came or went.
  bool UpdateRules(const std::map<std::string, CountedPool>& pools);
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
