// SPDX-License-Identifier: Apache-2.0
// Claims an unclaimed block, which is empty. The ADD then takes its address by an ordinary edit.
#include <algorithm>
#include <utility>

#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/engine_call.h"

namespace berth::ipam {

namespace {

// The first tries choose a block by the pool's status. After this many conflicts, the engine chooses by the list of all
// blocks.
constexpr int kHintedTries = 3;
constexpr int kClaimTriesMax = 30;

bool IsPassing(ErrorCode code) {
  return code == ErrorCode::kAlreadyExists || code == ErrorCode::kConflict || code == ErrorCode::kExhausted ||
         code == ErrorCode::kNotFound;
}

std::unexpected<Error> Exhausted(const Pool& pool, const std::string& why, const std::string& remedy = {}) {
  return Fail(ErrorCode::kExhausted,
              "pool " + pool.name + " is exhausted: " + why,
              "see: kubectl get ipblocks --field-selector spec.pool=" + pool.name + "; " +
                  (remedy.empty() ? "widen spec.ranges, if the pool has ranges" : remedy) + ", or add another pool");
}

// The pool's status may still show free addresses, namely in blocks of other nodes.
std::unexpected<Error> AllClaimed(const Pool& pool, const std::string& node) {
  return Exhausted(pool,
                   "every block is claimed" + (pool.affinity == Affinity::kNode
                                                   ? ", and node " + node + " has no free address in its blocks"
                                                   : std::string()));
}

std::unexpected<Error> InAnothersBlock(const Prefix& cidr, Address requested) {
  return Fail(ErrorCode::kAddressTaken,
              "requested address " + requested.ToString() + " lies in block " + cidr.ToString() +
                  ", which belongs to another node or pool",
              "use a pool with affinity Shared for addresses that must not depend on the node");
}

}  // namespace

Expected<PoolView> Engine::ClaimFor(Call& call, const PoolView& view, std::optional<Address> requested,
                                    bool is_all_claimed) {
  const Pool& pool = *view;
  const auto is_of_pool = [&pool](const BlockView& block) { return BelongsTo(*block, pool); };
  if (pool.affinity == Affinity::kNode && pool.max_blocks_per_node > 0 &&
      std::ranges::count_if(call.own, is_of_pool) >= pool.max_blocks_per_node) {
    return Exhausted(pool,
                     "node " + store_.Node() + " has the " + std::to_string(pool.max_blocks_per_node) +
                         " blocks that spec.maxBlocksPerNode allows" + (requested ? "" : ", all full"),
                     "raise spec.maxBlocksPerNode");
  }
  if (is_all_claimed && !requested) return AllClaimed(pool, store_.Node());
  const auto claimed = requested ? ClaimBlock(pool, BlockOf(pool, *requested)) : Claim(pool, kClaimTriesMax);
  if (!claimed && requested && IsPassing(claimed.error().code)) {
    return InAnothersBlock(BlockOf(pool, *requested), *requested);
  }
  if (!claimed) return std::unexpected(claimed.error());
  auto& known = pool.affinity == Affinity::kShared ? call.shared : call.own;
  std::erase_if(known, [&](const BlockView& block) { return block->name == (*claimed)->name; });
  known.push_back(*claimed);
  return store_.PoolOf(view, *claimed);
}

Expected<BlockView> Engine::Claim(const Pool& pool, int tries) {
  for (int attempt = 0; attempt < tries; ++attempt) {
    const auto cidr = PickClaim(pool, attempt);
    if (!cidr) return std::unexpected(cidr.error());
    auto claimed = ClaimBlock(pool, *cidr);
    const bool is_full = claimed && CountFree(**claimed, pool, runtime_.UnixMillis()) == 0;
    if (!is_full && (claimed || !IsPassing(claimed.error().code))) return claimed;
  }
  return Exhausted(pool,
                   "this node tried to claim " + std::to_string(tries) + " blocks, but others claimed them first");
}

Expected<Prefix> Engine::PickClaim(const Pool& pool, int attempt) {
  const Random random = [this](Uint128 bound) { return runtime_.Random(bound); };
  if (attempt < kHintedTries) {
    if (const auto cidr = PickClaimByHint(pool, random)) return *cidr;
  }
  const auto existing = store_.ReadBlockCidrs(pool.space);
  if (!existing) return std::unexpected(existing.error());
  if (const auto cidr = PickClaimExactly(pool, *existing, random)) return *cidr;
  store_.NoteAllClaimed(pool);
  return AllClaimed(pool, store_.Node());
}

Expected<BlockView> Engine::ClaimBlock(const Pool& pool, const Prefix& cidr) {
  const Block block = NewBlock(pool, cidr, pool.affinity == Affinity::kShared ? std::string() : store_.Node());
  if (auto go_on = runtime_.MayGoOn(); !go_on) return std::unexpected(go_on.error());
  auto created = store_.Create(block);
  // The answer was lost, usually because one connection was cut: try once more.
  const bool was_lost = !created && created.error().code == ErrorCode::kUnknownOutcome;
  if (was_lost && runtime_.MayGoOn()) created = store_.Create(block);
  if (created && !BelongsTo(**created, pool)) {
    return Fail(ErrorCode::kAlreadyExists, "block " + block.name + " exists, and is being deleted");
  }
  return created;
}

}  // namespace berth::ipam
