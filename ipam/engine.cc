// SPDX-License-Identifier: Apache-2.0
// Carries out ADD, DEL, CHECK and GC. engine_claim.cc claims new blocks.
#include "ipam/engine.h"

#include <algorithm>

#include "base/check.h"
#include "ipam/engine_call.h"

namespace berth::ipam {

namespace {

// An ADD fails after it has found new blocks full this many times, because other ADDs were faster.
constexpr int kLooksMax = 64;

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool HasSharedSibling(const Block& block, std::string_view attachment) {
  const auto offset = Find(block, attachment);
  if (!offset) return false;
  const Entry entry = ParseEntry(block.allocations.at(*offset));
  const auto* held = std::get_if<HeldEntry>(&entry);
  return held != nullptr && held->has_shared_sibling;
}

}  // namespace

Expected<AddResult> Engine::Add(const AddRequest& request) {
  BERTH_CHECK(!request.pools.empty());
  Call call(request);
  if (auto settled = SettleIntents(request.attachment); !settled) return std::unexpected(settled.error());
  auto pools = ReadPools(request);
  if (!pools) return std::unexpected(pools.error());
  call.pools = *std::move(pools);
  if (auto allowed = CheckAnnotated(call.pools, request.by_annotation); !allowed) {
    return std::unexpected(allowed.error());
  }
  const auto admission = ReadAdmission(call.pools, request);
  if (!admission) return std::unexpected(admission.error());
  auto plans = PlanFamilies(call.pools, *admission, request.requested);
  if (!plans) return std::unexpected(plans.error());
  call.plans = *std::move(plans);
  if (auto found = FindHeld(call); !found) return std::unexpected(found.error());

  std::vector<const FamilyPlan*> missing;
  for (const FamilyPlan& plan : call.plans) {
    if (!call.Has(plan.family)) missing.push_back(&plan);
  }
  // Take addresses of Node blocks first: their entries must say s=1 before an address of a Shared block is written.
  std::ranges::stable_partition(missing, [](const FamilyPlan* plan) { return !plan->may_be_shared(); });
  // An earlier ADD with another configuration may have taken the address of the Shared block.
  const bool has_shared = std::ranges::any_of(call.given, [](const Call::Given& one) { return one.block->shared(); });
  const bool may_get_shared =
      std::ranges::any_of(missing, [](const FamilyPlan* plan) { return plan->may_be_shared(); });
  call.mark_shared_sibling = has_shared || (call.plans.size() > 1 && may_get_shared);
  if (auto marked = MarkSharedSibling(call); !marked) return std::unexpected(marked.error());
  for (const FamilyPlan* plan : missing) {
    if (const auto taken = TakeForFamily(call, *plan); !taken) {
      TakeBack(call);
      return std::unexpected(taken.error());
    }
  }
  auto answer = Answer(call);
  if (!answer) TakeBack(call);
  return answer;
}

Expected<std::vector<PoolView>> Engine::ReadPools(const AddRequest& request) {
  const std::vector<std::string>& names = request.pools;
  auto read = store_.ReadPools(names, Freshness::kHint);
  if (!read) return std::unexpected(read.error());
  std::vector<PoolView> pools = *std::move(read);
  // The hint may be outdated: before the ADD refuses a pool that is missing or unusable, read the pool with kLatest.
  std::vector<std::string> doubtful;
  for (const std::string& name : names) {
    const auto known = std::ranges::find(pools, name, &Pool::name);
    if (known == pools.end() || !CheckUsable(**known)) doubtful.push_back(name);
  }
  if (!doubtful.empty()) {
    auto latest = store_.ReadPools(doubtful, Freshness::kLatest);
    if (!latest) return std::unexpected(latest.error());
    std::erase_if(pools, [&doubtful](const PoolView& pool) { return Contains(doubtful, pool->name); });
    std::ranges::move(*latest, std::back_inserter(pools));
  }
  std::vector<PoolView> ordered;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(pools, name, &Pool::name);
    if (found == pools.end() && Contains(request.by_annotation, name)) {
      return Fail(ErrorCode::kNotFound,
                  "pool " + name + ", which the pod's annotation names, does not exist",
                  "correct the annotation, or create the IPPool; see: kubectl get ippools");
    }
    if (found == pools.end()) {
      return Fail(ErrorCode::kNotFound,
                  "pool " + name + " does not exist (ipam.pools: " + Joined(names) + ")",
                  "create the IPPool, or correct ipam.pools; see: kubectl get ippools");
    }
    if (std::ranges::find(ordered, name, &Pool::name) == ordered.end()) ordered.push_back(*found);
  }
  return ordered;
}

Expected<Admission> Engine::ReadAdmission(const std::vector<PoolView>& pools, const AddRequest& request) {
  Admission admission{
      .node = store_.Node(), .node_labels = {}, .pod_namespace = request.pod_namespace, .namespace_labels = {}};
  if (std::ranges::any_of(pools, [](const PoolView& pool) { return pool->node_selector.has_value(); })) {
    auto labels = store_.ReadNodeLabels();
    if (!labels) return std::unexpected(labels.error());
    admission.node_labels = *std::move(labels);
  }
  const bool by_namespace =
      std::ranges::any_of(pools, [](const PoolView& pool) { return pool->namespace_selector.has_value(); });
  if (by_namespace && !request.pod_namespace.empty()) {
    auto labels = store_.ReadNamespaceLabels(request.pod_namespace);
    if (!labels) return std::unexpected(labels.error());
    admission.namespace_labels = *std::move(labels);
  }
  return admission;
}

Expected<void> Engine::SettleIntents(const Attachment& attachment) {
  const auto intents = store_.ReadOpenIntents(attachment);
  if (!intents) return std::unexpected(intents.error());
  for (const OpenIntent& intent : *intents) {
    Block named = intent.block;
    named.resource_version.clear();
    const auto fenced =
        store_.Edit(std::make_shared<const Block>(std::move(named)), {.attachment = attachment, .fence = true});
    if (!fenced && fenced.error().code != ErrorCode::kNotFound) return std::unexpected(fenced.error());
    if (auto closed = store_.CloseIntent(intent); !closed) return closed;
  }
  return {};
}

Expected<void> Engine::FindHeld(Call& call) {
  auto own = store_.ReadBlocks(BlockScope::kOwn, Freshness::kHint);
  if (!own) return std::unexpected(own.error());
  call.own = *std::move(own);
  const Attachment& attachment = call.request.attachment;
  const bool look_in_shared =
      std::ranges::any_of(call.plans, &FamilyPlan::may_be_shared) ||
      std::ranges::any_of(call.own, [&](const BlockView& block) { return HasSharedSibling(*block, attachment); });
  if (look_in_shared) {
    auto shared = store_.ReadBlocks(BlockScope::kShared, Freshness::kHint);
    if (!shared) return std::unexpected(shared.error());
    call.shared = *std::move(shared);
  }
  for (const auto* blocks : {&call.own, &call.shared}) {
    for (const BlockView& block : *blocks) {
      const auto offset = Find(*block, attachment);
      if (!offset || call.Has(block->cidr.family())) continue;
      call.given.push_back(
          {.family = block->cidr.family(), .address = block->cidr.At(*offset), .block = block, .taken_now = false});
    }
  }
  return {};
}

// To save a request, a DEL reads Shared blocks only if no Node block holds the attachment, or if an entry in a Node
// block has s=1. Therefore the entry in a Node block gets s=1 before the attachment gets an address of a Shared block.
Expected<void> Engine::MarkSharedSibling(Call& call) {
  if (!call.mark_shared_sibling) return {};
  const Attachment& attachment = call.request.attachment;
  for (Call::Given& given : call.given) {
    if (given.block->shared() || HasSharedSibling(*given.block, attachment)) continue;
    if (auto go_on = runtime_.MayGoOn(); !go_on) return go_on;
    auto written = store_.Edit(given.block, {.attachment = attachment, .what = MarkSibling{.attachment = attachment}});
    if (!written) return std::unexpected(written.error());
    given.block = *std::move(written);
  }
  return {};
}

Expected<Address> Engine::TakeForFamily(Call& call, const FamilyPlan& plan) {
  std::string reasons;
  std::optional<Error> last;
  std::optional<Error> not_given;
  std::string space;
  for (const PoolView& pool : plan.candidates) {
    // A pool of another space may have the address free, but two pods of one network must not get it.
    if (not_given && pool->space != space) continue;
    auto taken = TakeFromPool(call, pool, plan.requested);
    if (taken) return taken;
    // The block of the requested address may belong to a later pool.
    const bool is_not_given = plan.requested && taken.error().code == ErrorCode::kAddressTaken;
    // Try the next pool only if this pool cannot give an address: after any other error, a write may still land and
    // take an address.
    if (taken.error().code != ErrorCode::kExhausted && !is_not_given) return taken;
    if (is_not_given && !not_given) not_given = taken.error();
    space = pool->space;
    reasons += (reasons.empty() ? "" : "; ") + taken.error().message;
    last = taken.error();
  }
  if (!plan.requested) reasons += plan.skipped;
  if (not_given) {
    not_given->message = std::move(reasons);
    return std::unexpected(*std::move(not_given));
  }
  BERTH_CHECK(last.has_value());
  last->message = std::move(reasons);
  return TakeAtLast(call, plan, *std::move(last));
}

// Looks again: other nodes free addresses of Shared blocks, and the controller may have created a block for this node.
Expected<Address> Engine::TakeAtLast(Call& call, const FamilyPlan& plan, Error exhausted) {
  // Read the pools again, and before the blocks: a block may be younger than this call's view of its pool, and somebody
  // may have reserved addresses before the block was created.
  const auto pools = ReadPoolsAgain(plan.candidates);
  if (!pools) return std::unexpected(pools.error());
  for (const Affinity affinity : {Affinity::kNode, Affinity::kShared}) {
    if (std::ranges::find(*pools, affinity, &Pool::affinity) == pools->end()) continue;
    if (auto read = ReadBlocksAgain(call, affinity, Freshness::kLatest); !read) return std::unexpected(read.error());
  }
  for (const PoolView& pool : *pools) {
    auto taken = TakeFromKnownBlocks(call, pool, plan.requested);
    if (taken || taken.error().code != ErrorCode::kExhausted) return taken;
  }
  return std::unexpected(std::move(exhausted));
}

Expected<Address> Engine::TakeFromPool(Call& call, PoolView pool, std::optional<Address> requested) {
  std::optional<Error> not_claimed;
  for (int attempt = 0; attempt < kLooksMax && !not_claimed; ++attempt) {
    auto taken = TakeFromKnownBlocks(call, pool, requested);
    if (taken || taken.error().code != ErrorCode::kExhausted) return taken;
    const auto turn = store_.BeginClaim(*pool);
    if (!turn) return std::unexpected(turn.error());
    if (turn->look_again) {
      // The node has new blocks. Somebody may have reserved addresses before these blocks were created, but after this
      // call read the pool, or the pool may be gone: read the pool again.
      const auto again = ReadPoolsAgain({pool});
      if (!again) return std::unexpected(again.error());
      pool = again->front();
      if (auto read = ReadBlocksAgain(call, pool->affinity, Freshness::kHint); !read)
        return std::unexpected(read.error());
      continue;
    }
    auto claimed = ClaimFor(call, pool, requested, turn->is_all_claimed);
    if (claimed) {
      pool = *std::move(claimed);
    } else if (claimed.error().code == ErrorCode::kExhausted) {
      not_claimed = claimed.error();
    } else {
      return std::unexpected(claimed.error());
    }
  }
  if (not_claimed && pool->affinity == Affinity::kNode) return std::unexpected(*std::move(not_claimed));
  return Fail(ErrorCode::kExhausted,
              "pool " + pool->name + " is exhausted: no address is free in its blocks",
              "see: kubectl get ipblocks --field-selector spec.pool=" + pool->name +
                  "; widen spec.ranges, if the pool has ranges, or add another pool");
}

Expected<std::vector<PoolView>> Engine::ReadPoolsAgain(const std::vector<PoolView>& pools) {
  std::vector<std::string> names;
  for (const PoolView& pool : pools) names.push_back(pool->name);
  std::string missing;
  for (const Freshness freshness : {Freshness::kHint, Freshness::kLatest}) {
    auto read = store_.ReadPools(names, freshness);
    if (!read) return read;
    std::vector<PoolView> again;
    for (const PoolView& pool : pools) {
      const auto found = std::ranges::find(*read, pool->uid, &Pool::uid);
      if (found == read->end()) {
        missing = pool->name;
        break;
      }
      again.push_back(*found);
    }
    if (again.size() == pools.size()) return again;
  }
  return Fail(ErrorCode::kInvalid, "pool " + missing + " was deleted meanwhile");
}

Expected<void> Engine::ReadBlocksAgain(Call& call, Affinity affinity, Freshness freshness) {
  const bool is_shared = affinity == Affinity::kShared;
  auto read = store_.ReadBlocks(is_shared ? BlockScope::kShared : BlockScope::kOwn, freshness);
  if (!read) return std::unexpected(read.error());
  (is_shared ? call.shared : call.own) = *std::move(read);
  return {};
}

Expected<Address> Engine::TakeFromKnownBlocks(Call& call, const PoolView& pool, std::optional<Address> requested) {
  const bool is_shared = pool->affinity == Affinity::kShared;
  const std::int64_t now_ms = runtime_.UnixMillis();
  struct Room {
    std::uint32_t free;
    bool waits;  // no address is on standby, so an ADD must wait for its write
    BlockView block;
    [[nodiscard]] auto order() const { return std::pair(free, waits); }
  };
  std::vector<Room> with_room;
  for (const BlockView& block : is_shared ? call.shared : call.own) {
    if (!BelongsTo(*block, *pool)) continue;
    if (requested && !block->cidr.Contains(*requested)) continue;
    const std::uint32_t free = CountFree(*block, *pool, now_ms);
    if (free > 0 || requested) with_room.push_back({.free = free, .waits = block->standby.empty(), .block = block});
  }
  // Among the node's own blocks, prefer the block with the fewest free addresses, so that other blocks become empty and
  // the controller can delete them. Among Shared blocks, choose at random, so that writes of nodes seldom conflict.
  std::ranges::stable_sort(with_room, {}, &Room::order);
  std::optional<Error> refused;
  while (!with_room.empty()) {
    const std::size_t pick = is_shared ? static_cast<std::size_t>(runtime_.Random(with_room.size())) : 0;
    auto taken = TakeFromBlock(call, with_room[pick].block, pool, requested);
    if (taken) return taken;
    const ErrorCode code = taken.error().code;
    // A refusal may concern only this block, so try the other existing blocks. Claim no new block for this reason: if a
    // webhook refused all writes, each ADD would claim a block.
    const bool is_refused = !requested && IsRefusal(code);
    const bool try_next =
        code == ErrorCode::kExhausted || code == ErrorCode::kNotFound || code == ErrorCode::kConflict || is_refused;
    if (!try_next) return taken;
    if (is_refused) refused = taken.error();
    with_room.erase(with_room.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  if (refused) return std::unexpected(*std::move(refused));
  return Fail(ErrorCode::kExhausted, "pool " + pool->name + ": no block that this node knows has a free address");
}

Expected<Address> Engine::TakeFromBlock(Call& call, const BlockView& seen, const PoolView& known,
                                        std::optional<Address> requested) {
  if (auto go_on = runtime_.MayGoOn(); !go_on) return std::unexpected(go_on.error());
  const auto found = store_.PoolOf(known, seen);
  if (!found) return std::unexpected(found.error());
  const PoolView& pool = *found;
  if (auto usable = CheckUsable(*pool); !usable) return std::unexpected(usable.error());
  const std::int64_t now_ms = runtime_.UnixMillis();
  Change change{.attachment = call.request.attachment,
                .what = TakeAddress{.pool = pool,
                                    .entry = call.EntryFor(store_.Node(), *pool, now_ms),
                                    .requested = requested,
                                    .now_ms = now_ms,
                                    // If a new block has replaced this one, `pool` may be older than that block.
                                    .block_uid = seen->uid}};
  if (!seen->shared()) {
    change.standby = StandbyPlan{.pool = pool, .now_ms = now_ms, .block_uid = seen->uid};
    change.may_take_standby = !requested;
  }
  auto written = store_.Edit(seen, change);
  if (!written) return std::unexpected(written.error());
  const auto offset = Find(**written, call.request.attachment);
  if (!offset) return Fail(ErrorCode::kInternal, "block " + seen->name + " was written without the new entry");
  const Address address = (*written)->cidr.At(*offset);
  call.given.push_back({.family = address.family(), .address = address, .block = *written, .taken_now = true});
  return address;
}

void Engine::TakeBack(Call& call) {
  for (const Call::Given& given : call.given) {
    if (!given.taken_now) continue;
    // If the edit fails, the entry stays until the DEL that the runtime sends after a failed ADD, or until the pod is
    // gone.
    static_cast<void>(store_.Edit(
        given.block,
        {.attachment = call.request.attachment,
         .what = ReleaseAddresses{
             .attachments = {call.request.attachment}, .now_ms = runtime_.UnixMillis(), .were_used = false}}));
  }
}

Expected<AddResult> Engine::Answer(const Call& call) {
  AddResult result;
  for (const FamilyPlan& plan : call.plans) {
    const auto given = std::ranges::find(call.given, plan.family, &Call::Given::family);
    BERTH_CHECK(given != call.given.end());
    const auto known = std::ranges::find(call.pools, given->block->pool, &Pool::name);
    PoolView pool = known == call.pools.end() ? nullptr : *known;
    if (pool == nullptr) {
      // The attachment has an address of a pool that is not in this configuration: it got the address with another
      // configuration.
      auto read = store_.ReadPools({{given->block->pool}}, Freshness::kLatest);
      if (!read) return std::unexpected(read.error());
      if (read->empty()) {
        return Fail(
            ErrorCode::kNotFound,
            "pool " + given->block->pool + " of the held address " + given->address.ToString() + " does not exist");
      }
      pool = read->front();
    }
    result.addresses.push_back(
        {.address = given->address, .prefix_length = pool->ResultLength(), .gateway = pool->gateway});
    result.routes.insert(result.routes.end(), pool->routes.begin(), pool->routes.end());
    if (result.dns.empty()) result.dns = pool->dns;
  }
  result.is_new = std::ranges::all_of(call.given, &Call::Given::taken_now);
  return result;
}

Expected<std::vector<BlockView>> Engine::BlocksHolding(const Attachment& attachment) {
  const auto keep_holding = [&attachment](std::vector<BlockView>& blocks) {
    std::erase_if(blocks, [&attachment](const BlockView& block) { return !Find(*block, attachment); });
  };
  auto own = store_.ReadBlocks(BlockScope::kOwn, Freshness::kHint);
  if (!own) return own;
  keep_holding(*own);
  const auto has_sibling = [&](const BlockView& block) { return HasSharedSibling(*block, attachment); };
  if (!own->empty() && std::ranges::none_of(*own, has_sibling)) return own;
  auto shared = store_.ReadBlocks(BlockScope::kShared, Freshness::kHint);
  if (!shared) return shared;
  keep_holding(*shared);
  std::ranges::move(*shared, std::back_inserter(*own));
  return own;
}

Expected<void> Engine::ReleaseIn(const BlockView& seen, const Attachment& attachment, bool fence) {
  const std::int64_t now_ms = runtime_.UnixMillis();
  const auto written = store_.Edit(seen,
                                   {.attachment = attachment,
                                    .what = ReleaseAddresses{.attachments = {attachment}, .now_ms = now_ms},
                                    .fence = fence});
  // kNotFound: a block that is gone holds no address, and no write to this block can land.
  if (!written && written.error().code != ErrorCode::kNotFound) return std::unexpected(written.error());
  return {};
}

Expected<void> Engine::Settle(const OpenIntent& intent) {
  Block block = intent.block;
  block.resource_version.clear();
  const auto named = std::make_shared<const Block>(std::move(block));
  if (auto released = ReleaseIn(named, intent.attachment, /*fence=*/true); !released) return released;
  return store_.CloseIntent(intent);
}

Expected<void> Engine::Del(const Attachment& attachment) {
  std::optional<Error> first;
  const auto note = [&first](const Expected<void>& outcome) {
    if (!outcome && !first) first = outcome.error();
  };
  const auto intents = store_.ReadOpenIntents(attachment);
  if (!intents) return std::unexpected(intents.error());
  for (const OpenIntent& intent : *intents) note(Settle(intent));
  const auto holding = BlocksHolding(attachment);
  if (!holding) return std::unexpected(first.value_or(holding.error()));
  for (const BlockView& block : *holding) note(ReleaseIn(block, attachment, /*fence=*/false));
  if (first) return std::unexpected(*std::move(first));
  return {};
}

Expected<std::vector<HeldAddress>> Engine::Held(const Attachment& attachment) {
  const auto holding = BlocksHolding(attachment);
  if (!holding) return std::unexpected(holding.error());
  std::vector<HeldAddress> addresses;
  for (const BlockView& block : *holding) {
    if (const auto offset = Find(*block, attachment)) {
      addresses.push_back({.address = block->cidr.At(*offset), .pool = block->pool});
    }
  }
  return addresses;
}

std::vector<Error> Engine::CollectGarbage(std::string_view network, const std::function<bool(const HeldEntry&)>& keep) {
  std::vector<Error> errors;
  for (const BlockScope scope : {BlockScope::kOwn, BlockScope::kShared}) {
    const auto blocks = store_.ReadBlocks(scope, Freshness::kHint);
    if (!blocks) {
      errors.push_back(blocks.error());
      continue;
    }
    // Read the clock after the list, because the list's answer may be the first that tells the API server's time.
    const std::int64_t now_ms = runtime_.UnixMillis();
    for (const BlockView& block : *blocks) {
      std::vector<Attachment> gone;
      for (const auto& [offset, text] : block->allocations) {
        const Entry entry = ParseEntry(text);
        const auto* held = std::get_if<HeldEntry>(&entry);
        if (held == nullptr || !held->attachment.starts_with(network) || keep(*held)) continue;
        gone.push_back(held->attachment);
      }
      if (gone.empty()) continue;
      const auto written =
          store_.Edit(block, {.what = ReleaseAddresses{.attachments = std::move(gone), .now_ms = now_ms}});
      if (!written && written.error().code != ErrorCode::kNotFound) errors.push_back(written.error());
    }
  }
  return errors;
}

}  // namespace berth::ipam
