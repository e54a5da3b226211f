// SPDX-License-Identifier: Apache-2.0
// Decides which questions of the engine are answered from memory, and which with requests.
#include "agent/agent_store.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <spdlog/spdlog.h>

#include "base/mutex.h"
#include "ipam/engine.h"

namespace berth::agent {

using ipam::BlockView;

namespace {
// Intents of patches of own blocks exist only in memory, because a restarted agent fences all own blocks.
constexpr std::string_view kMemoryIntent = "memory:";
constexpr std::chrono::seconds kAllClaimedMin{30};
constexpr std::chrono::seconds kSharedTurnMax{10};
}  // namespace

ClaimTurns::Turn ClaimTurns::Begin(const std::string& what, SteadyTime deadline, std::chrono::milliseconds patience) {
  Lock lock(mutex_);
  Taken& one = taken_[what];  // the element exists as long as the turn is taken or waited for
  const bool waited = one.is_taken;
  ++one.waiting;
  // `patience` limits one turn and not the whole wait. While turn after turn ends, a call waits for its own turn, so
  // that it does not write at the same time as another call.
  const auto give_up_at = [&] { return std::min(deadline, one.since + patience); };
  while (one.is_taken && std::chrono::steady_clock::now() < give_up_at())
    ended_.wait_until(lock.native(), give_up_at());
  --one.waiting;
  if (one.is_taken) return {.hold = nullptr, .waited = true};
  one.is_taken = true;
  one.since = std::chrono::steady_clock::now();
  const auto end = [this, what](void*) {
    const Lock leave(mutex_);
    const auto mine = taken_.find(what);
    mine->second.is_taken = false;
    if (mine->second.waiting == 0) taken_.erase(mine);
    ended_.notify_all();
  };
  return {.hold = {this, end}, .waited = waited, .left = std::move(one.left)};
}

void ClaimTurns::Leave(const std::string& what, const BlockView& written) {
  const Lock lock(mutex_);
  taken_.at(what).left = written;
}

void ClaimTurns::NoteAllClaimed(const ipam::Pool& pool) {
  const Lock lock(mutex_);
  const auto believed = std::chrono::duration_cast<std::chrono::milliseconds>(kAllClaimedMin * (1 + clock_.Random()));
  all_claimed_[pool.uid] = {
      .claimable = pool.claimable, .block_count = pool.block_count, .until = clock_.Now() + believed};
}

bool ClaimTurns::IsAllClaimed(const ipam::Pool& pool) const {
  const Lock lock(mutex_);
  const auto found = all_claimed_.find(pool.uid);
  return found != all_claimed_.end() && clock_.Now() < found->second.until &&
         found->second.block_count == pool.block_count && found->second.claimable == pool.claimable;
}

bool ClaimTurns::IsLookDue(const ipam::Pool& pool, std::chrono::milliseconds first_within) {
  const Lock lock(mutex_);
  const SteadyTime now = clock_.Now();
  const auto after = [&](std::chrono::milliseconds least, std::chrono::milliseconds within) {
    return now + least + std::chrono::duration_cast<std::chrono::milliseconds>(within * clock_.Random());
  };
  const auto next = next_looks_.try_emplace(pool.uid, after(std::chrono::milliseconds(0), first_within)).first;
  if (now < next->second) return false;
  next->second = after(kAllClaimedMin, kAllClaimedMin);
  return true;
}

void DeferredEdits::Begin() {
  const Lock lock(mutex_);
  ++open_;
}

void DeferredEdits::End(const std::optional<Error>& failure) {
  Then then;
  std::optional<Error> first;
  {
    const Lock lock(mutex_);
    if (failure && failure->code != ErrorCode::kNotFound && !failure_) failure_ = failure;
    if (--open_ > 0) return;
    then = std::exchange(then_, nullptr);
    first = failure_;
  }
  then(first);
}

AgentStore::AgentStore(const AgentStoreParts& parts, ipam::Runtime& runtime, SteadyTime deadline)
    : own_(parts.own),
      view_(parts.view),
      turns_(parts.turns),
      directory_(parts.directory),
      remote_(parts.api, parts.directory, runtime,
              {.node = parts.own.node(),
               .call = {.deadline = deadline, .stop = {}},
               .agent_instance = parts.own.instance(),
               .on_unreadable =
                   [](const Error& error) {
                     spdlog::warn("block cannot be read, so it is not used err=\"{}\"", error.message);
                   },
               .reuse = [&view = parts.view](BlockView block) { return view.Reuse(std::move(block)); }}),
      deadline_(deadline) {}

Expected<std::vector<ipam::PoolView>> AgentStore::ReadPools(std::span<const std::string> names,
                                                            ipam::Freshness freshness) {
  if (freshness == ipam::Freshness::kHint) {
    pools_generation_ = own_.Generation();
    return view_.Pools(names);
  }
  std::vector<ipam::PoolView> pools;
  for (const std::string& name : names) {
    auto read = view_.ReadLatest(name, remote_.RequestOptions());
    if (!read) return std::unexpected(read.error());
    if (*read == nullptr) break;
    pools.push_back(*std::move(read));
  }
  return pools;
}

Expected<ipam::PoolView> AgentStore::PoolOf(const ipam::PoolView& pool, const BlockView& block) {
  if (const auto proved = proved_.find(block->uid); proved != proved_.end()) return proved->second;
  // A block of this node is in memory only if its pool was read after the block was created, or if the block is older
  // than this agent's first read of pools.
  if (!block->shared()) return pool;
  if (auto known = view_.PoolOf(*block)) return known;
  return ProvePool(*block);
}

Expected<ipam::PoolView> AgentStore::ProvePool(const ipam::Block& block) {
  auto latest = view_.ReadLatest(block.pool, remote_.RequestOptions());
  if (!latest) return latest;
  if (*latest == nullptr || (*latest)->uid != block.pool_uid) {
    return Fail(ErrorCode::kInvalid, "pool " + block.pool + " was deleted meanwhile");
  }
  return proved_[block.uid] = *std::move(latest);
}

Expected<ipam::Labels> AgentStore::ReadNodeLabels() { return view_.NodeLabels(); }

Expected<ipam::Labels> AgentStore::ReadNamespaceLabels(const std::string& name) {
  if (auto labels = view_.NamespaceLabels(name)) return *std::move(labels);
  return remote_.ReadNamespaceLabels(name);
}

Expected<std::vector<BlockView>> AgentStore::ReadBlocks(ipam::BlockScope scope, ipam::Freshness freshness) {
  if (scope == ipam::BlockScope::kShared) {
    const std::uint64_t writes = view_.SharedWrites();
    auto blocks = remote_.ReadBlocks(scope, freshness);
    if (blocks) view_.NoteShared(writes, *blocks);
    return blocks;
  }
  generation_ = pools_generation_ ? *pools_generation_ : own_.Generation();
  return own_.Snapshot(pools_generation_.value_or(UINT64_MAX));
}

Expected<std::vector<ipam::Prefix>> AgentStore::ReadBlockCidrs(const std::string& space) {
  return remote_.ReadBlockCidrs(space);
}

Expected<BlockView> AgentStore::Edit(const BlockView& seen, const ipam::Change& change) {
  if (seen->shared()) return EditShared(seen, change);
  if (deferred_ != nullptr && !change.fence) {
    deferred_->Begin();
    own_.EditDeferred(seen, change, [deferred = deferred_](const Expected<BlockView>& written) {
      deferred->End(written ? std::nullopt : std::optional(written.error()));
    });
    return seen;
  }
  const SteadyTime deadline = std::min(deadline_, std::chrono::steady_clock::now() + edit_max_);
  // Without a version, `seen` comes from an intent and not from a read. The known block may be an earlier block of this
  // name, which is gone: find out.
  if (seen->resource_version.empty()) {
    if (auto looked = own_.ObserveListed(seen->name, /*version=*/0, deadline); !looked)
      return std::unexpected(looked.error());
  }
  if (!own_.Knows(seen->name)) {
    // The block is gone, or this agent has not fenced a later block of this name yet. If an ADD took an address of the
    // later block, a DEL would not find the address.
    if (std::holds_alternative<ipam::TakeAddress>(change.what)) {
      return Fail(ErrorCode::kNotFound, "block " + seen->name + " is gone");
    }
    return remote_.Edit(seen, change);
  }
  ipam::Change wanted = change;
  wanted.may_take_standby = change.may_take_standby && hands_out_;
  if (wanted.may_take_standby) {
    if (auto given = HandOut(seen, wanted)) return *std::move(given);
  } else if (std::holds_alternative<ipam::TakeAddress>(change.what)) {
    // A successor may have read an earlier DEL of this attachment in the journal, and would free the address. After
    // this check, a successor reads a journal without this DEL.
    if (const auto ownership = directory_.HoldNodeOwnership(own_.instance()); !ownership)
      return std::unexpected(ownership.error());
  }
  auto written = own_.Edit(seen, wanted, deadline);
  if (written && *written == nullptr) {
    // Edit has withdrawn the change: the patch of another ADD has put addresses on standby, which this ADD can get.
    if (auto given = HandOut(seen, wanted)) return *std::move(given);
    wanted.may_take_standby = false;
    written = own_.Edit(seen, wanted, deadline);
  }
  return written;
}

// Takes a turn, so that the calls of this node do not cause conflicts for each other. A turn only saves requests. If a
// turn lasts longer than 10 s, for example because the API server does not answer, the other calls write without a
// turn.
Expected<BlockView> AgentStore::EditShared(const BlockView& seen, const ipam::Change& change) {
  const auto patience = std::min<std::chrono::milliseconds>(kSharedTurnMax, edit_max_);
  const std::string what = "block " + seen->name;
  const ClaimTurns::Turn turn = turns_.Begin(what, deadline_, patience);
  // An edit without a version has to read the block, because a write of the block may be in doubt.
  const bool has_news =
      turn.left != nullptr && !seen->resource_version.empty() && VersionOf(*turn.left) > VersionOf(*seen);
  const BlockView base = has_news ? turn.left : seen;
  view_.NoteSharedWrite();
  auto written = remote_.Edit(base, change);
  view_.NoteSharedWrite();
  if (written && turn.hold != nullptr) turns_.Leave(what, *written);
  return written;
}

std::optional<Expected<BlockView>> AgentStore::HandOut(const BlockView& seen, const ipam::Change& change) {
  // If a successor owns the node, it has already read the notes, and would never see this note.
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  BlockView given = own_.HandOut(seen, change);
  if (given == nullptr) return std::nullopt;
  return given;
}

Expected<BlockView> AgentStore::Create(const ipam::Block& block) {
  if (block.shared()) return remote_.Create(block);
  if (own_.Knows(block.name)) return Fail(ErrorCode::kAlreadyExists, "this node has block " + block.name);
  ipam::Block ours = block;
  ours.agent = own_.AgentField();
  auto created = remote_.Create(ours);
  if (created || created.error().code == ErrorCode::kUnknownOutcome) unknown_blocks_.insert(block.name);
  if (!created) return created;
  if (auto taken = TakeIn(*created, ours); !taken) {
    // If the block existed before, and the API server refuses the fence of the block, leave the block alone, like a
    // block of another node.
    Error failed = taken.error();
    if (ipam::IsRefusal(failed.code) && (*created)->agent != ours.agent) failed.code = ErrorCode::kAlreadyExists;
    return std::unexpected(std::move(failed));
  }
  unknown_blocks_.erase(block.name);
  return created;
}

Expected<void> AgentStore::TakeIn(const BlockView& created, const ipam::Block& ours) {
  // No call may take an address of the new block with knowledge of the pool that is older than the block
  // (docs/adr/0001). If the pool cannot be read, the block stays out of memory until a list of blocks shows it.
  if (auto proved = ProvePool(*created); !proved) return std::unexpected(proved.error());
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  if (created->agent != ours.agent) return own_.TakeIn(created, deadline_);
  own_.Insert(created);
  return {};
}

Expected<ipam::ClaimTurn> AgentStore::BeginClaim(const ipam::Pool& pool) {
  const ClaimTurns::Turn turn = turns_.Begin(pool.name, deadline_);
  if (turn.hold == nullptr) {
    return Fail(ErrorCode::kTimeout,
                "the time limit passed while another call claimed a block of pool " + pool.name,
                "the runtime tries the call again");
  }
  const bool is_all_claimed = turns_.IsAllClaimed(pool);
  // For a Shared pool: the call with the previous turn has created a block, unless it found no unclaimed block.
  const bool blocks_came =
      pool.affinity == ipam::Affinity::kNode ? own_.Generation() != generation_ : turn.waited && !is_all_claimed;
  return ipam::ClaimTurn{.hold = turn.hold, .look_again = blocks_came, .is_all_claimed = is_all_claimed};
}

Expected<std::vector<ipam::OpenIntent>> AgentStore::ReadOpenIntents(const ipam::Attachment& attachment) {
  Expected<std::vector<ipam::OpenIntent>> intents;
  // With deferred edits there is no stored intent: the caller of DeferEdits found none, and has the attachment's turn.
  if (deferred_ == nullptr) intents = remote_.ReadOpenIntents(attachment);
  if (!intents) return intents;
  for (ipam::OpenIntent intent : own_.InDoubt(attachment)) {
    intent.id.insert(0, kMemoryIntent);
    intents->push_back(std::move(intent));
  }
  return intents;
}

Expected<void> AgentStore::CloseIntent(const ipam::OpenIntent& intent) {
  if (!intent.id.starts_with(kMemoryIntent)) return remote_.CloseIntent(intent);
  ipam::OpenIntent own = intent;
  own.id.erase(0, kMemoryIntent.size());
  own_.CloseIntent(own);
  return {};
}

}  // namespace berth::agent
