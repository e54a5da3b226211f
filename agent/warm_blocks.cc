// SPDX-License-Identifier: Apache-2.0
// Counts the free addresses of each pool, and claims no block that other nodes need more.
#include "agent/warm_blocks.h"

#include <algorithm>
#include <limits>

#include <spdlog/spdlog.h>

#include "agent/call_runtime.h"
#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/pool_choice.h"

namespace berth::agent {

using ipam::BlockView;

namespace {

// In a pool with at most this many blocks, the cluster's nodes could claim all blocks before the pool's status shows
// that.
constexpr int kFewBlocks = 1024;
constexpr int kTriesMax = 6;

}  // namespace

bool WarmBlocks::Claim() {
  is_lost_ = false;
  generation_ = parts_.own.Generation();
  if (pause_.IsOn(clock_.Now())) return true;
  const std::vector<BlockView> blocks = parts_.own.Snapshot();
  std::int64_t spare = std::numeric_limits<std::int64_t>::max();
  const ipam::Labels labels = parts_.view.NodeLabels();
  for (const ipam::PoolView& pool : parts_.view.AllPools()) {
    const bool is_wanted = pool->warm_addresses > 0 || !pool->resource.empty();
    const bool is_for_node = pool->affinity == ipam::Affinity::kNode && is_wanted && ipam::CheckUsable(*pool) &&
                             (!pool->node_selector || pool->node_selector->Matches(labels));
    if (is_for_node) spare = std::min(spare, ClaimFor(*pool, blocks));
  }
  spare_ = spare;
  if (is_lost_) pause_.AfterFailure(clock_.Now());
  return !is_lost_;
}

// Scarce blocks are for nodes that use the pool. (An ADD claims a block without this check.) If many nodes see a new
// pool at the same moment, each node would count blocks as unclaimed until the pool's status shows the claims. So each
// node lists the blocks, at a random moment.
bool WarmBlocks::MayClaimMore(const ipam::Pool& pool, bool is_used, AgentStore& store) {
  if (!ipam::MayClaimAhead(pool, is_used)) return false;
  if (is_used || ipam::PoolBlocks(pool).Count() > kFewBlocks) return true;
  if (!parts_.turns.IsLookDue(pool, looks_within_)) return false;
  const auto cidrs = store.ReadBlockCidrs(pool.space);
  if (!cidrs) return false;
  ipam::Pool counted = pool;
  const auto is_its = [&pool](const ipam::Prefix& cidr) { return pool.subnet.Contains(cidr); };
  counted.block_count = static_cast<ipam::Uint128>(std::ranges::count_if(*cidrs, is_its));
  return ipam::MayClaimAhead(counted, is_used);
}

std::int64_t WarmBlocks::ClaimFor(const ipam::Pool& pool, const std::vector<BlockView>& blocks) {
  CallRuntime runtime(clock_, clock_.Now(), kStepMax, parts_.own);
  int count = 0;
  std::uint32_t free = 0;
  bool is_used = false;
  for (const BlockView& block : blocks) {
    if (!ipam::BelongsTo(*block, pool)) continue;
    ++count;
    free += ipam::CountFree(*block, pool, runtime.UnixMillis());
    is_used = is_used || ipam::HasHeldEntry(*block);
  }
  // If the node has no block of a pool with spec.resource, the Node shows no address of the pool, so the scheduler
  // assigns no pod that requests one to the node.
  const bool lacks_first = count == 0 && !pool.resource.empty();
  const std::int64_t spare = lacks_first ? -1 : std::int64_t{free} - pool.warm_addresses;
  if (spare >= 0) return spare;
  if (pool.max_blocks_per_node > 0 && count >= pool.max_blocks_per_node) return spare;
  AgentStore store(parts_, runtime, runtime.end());
  if (!MayClaimMore(pool, is_used || lacks_first, store)) return std::numeric_limits<std::int64_t>::max();
  static_cast<void>(store.ReadBlocks(ipam::BlockScope::kOwn, ipam::Freshness::kHint).has_value());
  const auto turn = store.BeginClaim(pool);
  if (!turn || turn->is_all_claimed || (turn->look_again && parts_.own.Snapshot().size() != blocks.size()))
    return spare;
  // If the pool cannot be read, the new block would not be used, and the next Claim would claim another block.
  if (const auto latest = parts_.view.ReadLatest(pool.name, k8sclient::CallOptions::Within(kStepMax));
      !latest || *latest == nullptr || (*latest)->uid != pool.uid) {
    return spare;
  }
  const auto claimed = ipam::Engine(store, runtime).Claim(pool, kTriesMax);
  is_lost_ = is_lost_ || store.leaves_unknown_block();
  if (claimed) {
    metrics_.ClaimedAhead(pool.name);
    spdlog::info("block claimed in advance block={} pool={}", (*claimed)->name, pool.name);
  } else if (claimed.error().code != ErrorCode::kExhausted) {  // ADDs report it
    spdlog::warn("cannot claim a block in advance pool={} err=\"{}\"", pool.name, claimed.error().message);
  }
  return spare;
}

}  // namespace berth::agent
