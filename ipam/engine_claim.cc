// SPDX-License-Identifier: Apache-2.0
// Claims a new block for an ADD: chooses it, creates it with the address's entry, and reads the pool again.
#include <algorithm>
#include <utility>

#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/engine_call.h"

namespace berth::ipam {

namespace {

// The first tries choose by the pool's status. After so many conflicts, the list of all blocks is better than the
// status.
constexpr int kHintedTries = 3;
constexpr int kClaimTriesMax = 30;
constexpr int kAheadTriesMax = 6;
constexpr std::chrono::milliseconds kUnknownOutcomePause{20};

bool IsPassing(ErrorCode code) {
  return code == ErrorCode::kAlreadyExists || code == ErrorCode::kConflict || code == ErrorCode::kExhausted ||
         code == ErrorCode::kNotFound;
}

std::unexpected<Error> Exhausted(const Pool& pool, std::string why) {
  return Fail(
      ErrorCode::kExhausted,
      "pool " + pool.name + " is exhausted: " + std::move(why),
      "see: kubectl get ipblocks --field-selector spec.pool=" + pool.name + "; enlarge the pool or add another");
}

std::unexpected<Error> OthersWereFaster(const Pool& pool, int tries) {
  return Exhausted(pool,
                   "this node tried to claim " + std::to_string(tries) + " blocks, but others claimed them first");
}

std::unexpected<Error> InAnothersBlock(const Prefix& cidr, Address requested) {
  return Fail(ErrorCode::kAddressTaken,
              "requested address " + requested.ToString() + " lies in block " + cidr.ToString() +
                  ", which belongs to another node or pool",
              "use a pool with affinity Shared for addresses that must not depend on the node");
}

}  // namespace

Expected<Address> Engine::ClaimAndTake(Call& call, const PoolView& pool, std::optional<Address> requested,
                                       bool is_all_claimed) {
  const auto is_of_pool = [&pool](const BlockView& block) { return BelongsTo(*block, *pool); };
  if (pool->affinity == Affinity::kNode && pool->max_blocks_per_node > 0 &&
      std::ranges::count_if(call.own, is_of_pool) >= pool->max_blocks_per_node) {
    return Exhausted(*pool,
                     "node " + store_.Node() + " has the " + std::to_string(pool->max_blocks_per_node) +
                         " blocks that spec.maxBlocksPerNode allows" + (requested ? "" : ", all full"));
  }
  if (requested) {
    const Prefix cidr = BlockOf(*pool, *requested);
    auto claimed = ClaimBlock(call, pool, cidr, requested);
    if (!claimed && IsPassing(claimed.error().code)) return InAnothersBlock(cidr, *requested);
    return claimed;
  }
  if (is_all_claimed) return Exhausted(*pool, "every block is claimed");
  for (int attempt = 0; attempt < kClaimTriesMax; ++attempt) {
    const auto cidr = PickClaim(*pool, attempt);
    if (!cidr) return std::unexpected(cidr.error());
    auto claimed = ClaimBlock(call, pool, *cidr, std::nullopt);
    if (claimed || !IsPassing(claimed.error().code)) return claimed;
  }
  return OthersWereFaster(*pool, kClaimTriesMax);
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
  return Exhausted(pool, "every block is claimed");
}

Expected<BlockView> Engine::ClaimAhead(const Pool& pool) {
  for (int attempt = 0; attempt < kAheadTriesMax; ++attempt) {
    const auto cidr = PickClaim(pool, attempt);
    if (!cidr) return std::unexpected(cidr.error());
    auto created = store_.Create(NewBlock(pool, *cidr, store_.Node()), /*attachment=*/"");
    if (created || created.error().code != ErrorCode::kAlreadyExists) return created;
  }
  return OthersWereFaster(pool, kAheadTriesMax);
}

Expected<Address> Engine::ClaimBlock(Call& call, const PoolView& pool, const Prefix& cidr,
                                     std::optional<Address> requested) {
  if (auto go_on = runtime_.MayGoOn(); !go_on) return std::unexpected(go_on.error());
  const bool is_shared = pool->affinity == Affinity::kShared;
  Block block = NewBlock(*pool, cidr, is_shared ? std::string() : store_.Node());
  const std::int64_t now_ms = runtime_.UnixMillis();
  const HeldEntry entry = call.EntryFor(store_.Node(), *pool, now_ms);
  if (auto taken = Take(block, *pool, entry, requested, now_ms); !taken) return taken;
  auto [claimed, was_in_doubt] = CreateSettled(call, block);
  if (!claimed && claimed.error().code == ErrorCode::kAlreadyExists) {
    // The block may still be usable: the controller, or a call whose answer was lost, may have claimed it for this
    // node. Every node may use a Shared block.
    block.allocations.clear();
    const TakeAddress take{
        .pool = pool, .entry = entry, .requested = requested, .now_ms = now_ms, .of_node = block.node};
    claimed = store_.Edit(std::make_shared<const Block>(std::move(block)),
                          {.attachment = call.request.attachment, .what = take});
    // The block exists, but refuses the write: leave it alone, like a block of another node. But if this call may have
    // created the block, with the entry in it, another address would be the attachment's second one.
    if (!claimed && !requested && IsRefusal(claimed.error().code)) {
      claimed.error().code = was_in_doubt ? ErrorCode::kUnknownOutcome : ErrorCode::kAlreadyExists;
    }
  }
  if (!claimed) return std::unexpected(claimed.error());
  return VerifyClaim(call, *pool, *claimed, requested);
}

Engine::Creation Engine::CreateSettled(Call& call, const Block& block) {
  for (bool was_in_doubt = false;; was_in_doubt = true) {
    auto created = store_.Create(block, call.request.attachment);
    if (created || created.error().code != ErrorCode::kUnknownOutcome) return {std::move(created), was_in_doubt};
    // Repeat the POST. If it succeeds, the first POST can no longer land. If the block exists, the first POST may have
    // landed.
    if (!runtime_.Wait(kUnknownOutcomePause) || !runtime_.MayGoOn()) return {std::move(created), true};
  }
}

// Reads the pool again, because this call's view of it may be outdated: somebody may have deleted the pool, created it
// again, or made reservations. A program that changes the pool later finds the new block.
Expected<Address> Engine::VerifyClaim(Call& call, const Pool& pool, const BlockView& claimed,
                                      std::optional<Address> requested) {
  const Attachment& attachment = call.request.attachment;
  const auto give_back = [&](Error why) -> Expected<Address> {
    // Free the address; the controller deletes the empty block.
    if (auto released = ReleaseIn(claimed, attachment, /*fence=*/false); !released) {
      // The attachment may still hold the address, so this ADD must not take another one.
      why.code = ErrorCode::kUnknownOutcome;
      why.details += (why.details.empty() ? "" : "; ") + ("giving the address back: " + released.error().message);
    }
    return std::unexpected(std::move(why));
  };
  const auto offset = Find(*claimed, attachment);
  if (!offset) return Fail(ErrorCode::kInternal, "block " + claimed->name + " was written without the new entry");
  const Address address = claimed->cidr.At(*offset);
  const auto read = store_.ReadPools({{pool.name}}, Freshness::kLatest);
  if (!read) return give_back(read.error());
  if (read->empty() || read->front()->uid != pool.uid) {
    return give_back({.code = ErrorCode::kInvalid, .message = "pool " + pool.name + " was deleted meanwhile"});
  }
  const PoolView latest = read->front();
  if (auto usable = CheckUsable(*latest); !usable) return give_back(usable.error());
  BlockView block = claimed;
  if (!AssignableIn(*latest, claimed->cidr).Contains(address)) {
    const std::int64_t now_ms = runtime_.UnixMillis();
    const TakeAddress replace{.pool = latest,
                              .entry = call.EntryFor(store_.Node(), *latest, now_ms),
                              .requested = requested,
                              .now_ms = now_ms,
                              .replaces = true};
    auto replaced = store_.Edit(claimed, {.attachment = attachment, .what = replace});
    if (!replaced) return give_back(replaced.error());
    block = *std::move(replaced);
  }
  const auto final_offset = Find(*block, attachment);
  if (!final_offset) return Fail(ErrorCode::kInternal, "block " + block->name + " was written without the new entry");
  const Address final_address = block->cidr.At(*final_offset);
  call.given.push_back({.family = final_address.family(), .address = final_address, .block = block, .taken_now = true});
  return final_address;
}

}  // namespace berth::ipam
