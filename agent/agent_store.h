// SPDX-License-Identifier: Apache-2.0
// AgentStore is the engine's BlockStore in the agent: it reads own blocks and pools from memory, and sends requests for
// the rest. Each call has its own AgentStore.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/cluster_view.h"
#include "agent/own_blocks.h"
#include "base/mutex.h"
#include "ipam/block_store.h"
#include "k8sclient/clock.h"
#include "node/direct_store.h"
#include "node/node_directory.h"

namespace berth::agent {

// Lets calls claim blocks and write Shared blocks one by one, and notes pools without unclaimed blocks. Thread-safe.
class ClaimTurns {
 public:
  // The clock must outlive this object.
  explicit ClaimTurns(k8sclient::Clock& clock) : clock_(clock) {}

  struct Turn {
    std::shared_ptr<void> hold;  // the turn lasts as long as this pointer; nullptr: no turn in time
    bool waited = false;
    ipam::BlockView left = nullptr;  // the block as the call with the previous turn wrote it, or nullptr
  };
  // Waits for the turn. Gives up at the deadline, or when another call's turn lasts longer than `patience`.
  [[nodiscard]] Turn Begin(const std::string& what, SteadyTime deadline,
                           std::chrono::milliseconds patience = std::chrono::hours(1));
  // Leaves the written block to the call that gets the next turn. Requires: the caller has the turn.
  void Leave(const std::string& what, const ipam::BlockView& written);

  // Records that all blocks of the pool exist. The record is valid until the pool's status changes, but for at most 30
  // to 60 s. Without the record, thousands of nodes would list all blocks for every ADD.
  void NoteAllClaimed(const ipam::Pool& pool);
  [[nodiscard]] bool IsAllClaimed(const ipam::Pool& pool) const;
  // Whether this node, which uses no address of the pool, may list the pool's blocks now: for the first time at a
  // random moment within `first_within`, and then every 30 to 60 s.
  [[nodiscard]] bool IsLookDue(const ipam::Pool& pool, std::chrono::milliseconds first_within);

 private:
  struct Taken {
    bool is_taken = false;
    SteadyTime since = {};  // when the turn was taken
    int waiting = 0;
    ipam::BlockView left = nullptr;
  };
  struct AllClaimed {
    std::vector<ipam::Prefix> claimable;  // from the pool's status
    ipam::Uint128 block_count;
    SteadyTime until;
  };

  k8sclient::Clock& clock_;
  mutable Mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Taken> taken_ BERTH_GUARDED_BY(mutex_);  // turns that are taken or waited for, by name
  std::map<std::string, AllClaimed> all_claimed_ BERTH_GUARDED_BY(mutex_);  // by the pool's UID
  std::map<std::string, SteadyTime> next_looks_ BERTH_GUARDED_BY(mutex_);   // by the pool's UID
};

// Objects that the stores of all calls share, and that must outlive the stores.
struct AgentStoreParts {
  OwnBlocks& own;
  ClusterView& view;
  ClaimTurns& turns;
  k8sclient::Api& api;
  const node::NodeDirectory& directory;
};

// The deferred changes of one call (AgentStore::DeferEdits). Thread-safe.
class DeferredEdits {
 public:
  // `then` is called once, after each Begin has its End and the call itself has called End. It gets the first failure.
  using Then = std::function<void(const std::optional<Error>& failure)>;
  explicit DeferredEdits(Then then) : then_(std::move(then)) {}

  void Begin();
  // Ends one change. kNotFound is no failure, because a block that is gone holds nothing.
  void End(const std::optional<Error>& failure);

 private:
  Mutex mutex_;
  int open_ BERTH_GUARDED_BY(mutex_) = 1;  // starts with 1 for the call itself
  std::optional<Error> failure_ BERTH_GUARDED_BY(mutex_);
  Then then_ BERTH_GUARDED_BY(mutex_);
};

// A successor (a later agent of this node) reads the node's open intents and notes once, when it becomes the owner of
// the node, and frees addresses that no caller got. So before this agent relies on a closed intent, on a note, or on
// the absence of a write, it holds the ownership of the node (NodeDirectory::HoldNodeOwnership).
class AgentStore final : public ipam::BlockStore {
 public:
  // The runtime must outlive the store.
  AgentStore(const AgentStoreParts& parts, ipam::Runtime& runtime, SteadyTime deadline);

  // Limits the time of each further edit of an own block, so that one block that cannot be written leaves time for
  // other blocks.
  void LimitEdits(std::chrono::milliseconds limit) { edit_max_ = limit; }

  // From now on edits of own blocks become deferred changes: they succeed at once, and are written later. An edit with
  // a fence still waits, because it settles a write in doubt. Requires: the caller has the attachment's turn, and
  // ReadOpenIntents returned no intent of the attachment.
  void DeferEdits(std::shared_ptr<DeferredEdits> deferred) { deferred_ = std::move(deferred); }

  // From now on an ADD may take an address on standby, whose entry is written later.
  void HandOutStandby() { hands_out_ = true; }

  // Whether this call may have created a block that is not in memory.
  [[nodiscard]] bool leaves_unknown_block() const { return !unknown_blocks_.empty(); }

  [[nodiscard]] const std::string& Node() const override { return own_.node(); }
  [[nodiscard]] Expected<std::vector<ipam::PoolView>> ReadPools(std::span<const std::string> names,
                                                                ipam::Freshness freshness) override;
  [[nodiscard]] Expected<ipam::Labels> ReadNodeLabels() override;
  [[nodiscard]] Expected<ipam::Labels> ReadNamespaceLabels(const std::string& name) override;
  [[nodiscard]] Expected<std::vector<ipam::BlockView>> ReadBlocks(ipam::BlockScope scope,
                                                                  ipam::Freshness freshness) override;
  [[nodiscard]] Expected<ipam::PoolView> PoolOf(const ipam::PoolView& pool, const ipam::BlockView& block) override;
  [[nodiscard]] Expected<std::vector<ipam::Prefix>> ReadBlockCidrs(const std::string& space) override;
  [[nodiscard]] Expected<ipam::BlockView> Edit(const ipam::BlockView& seen, const ipam::Change& change) override;
  [[nodiscard]] Expected<ipam::BlockView> Create(const ipam::Block& block) override;
  [[nodiscard]] Expected<ipam::ClaimTurn> BeginClaim(const ipam::Pool& pool) override;
  void NoteAllClaimed(const ipam::Pool& pool) override { turns_.NoteAllClaimed(pool); }
  [[nodiscard]] Expected<std::vector<ipam::OpenIntent>> ReadOpenIntents(const ipam::Attachment& attachment) override;
  [[nodiscard]] Expected<void> CloseIntent(const ipam::OpenIntent& intent) override;

 private:
  // Reads the block's pool for PoolOf.
  [[nodiscard]] Expected<ipam::PoolView> ProvePool(const ipam::Block& block);
  // Adds the block `created` to memory: the API server's answer to Create's request for `ours`.
  [[nodiscard]] Expected<void> TakeIn(const ipam::BlockView& created, const ipam::Block& ours);
  [[nodiscard]] Expected<ipam::BlockView> EditShared(const ipam::BlockView& seen, const ipam::Change& change);
  // Gives the attachment an address on standby. Returns nullopt if no address may be handed out.
  [[nodiscard]] std::optional<Expected<ipam::BlockView>> HandOut(const ipam::BlockView& seen,
                                                                 const ipam::Change& change);

  OwnBlocks& own_;
  ClusterView& view_;
  ClaimTurns& turns_;
  const node::NodeDirectory& directory_;
  node::DirectStore remote_;
  SteadyTime deadline_;
  std::chrono::milliseconds edit_max_ = std::chrono::hours(1);
  std::shared_ptr<DeferredEdits> deferred_;
  bool hands_out_ = false;
  std::set<std::string> unknown_blocks_;  // names of blocks that this call may have created, and that are not in memory
  std::map<std::string, ipam::PoolView> proved_;  // pools that this call read for PoolOf, by the block's UID
  // own_.Generation() before this call last read pools. The call does not use blocks that were added later, because its
  // knowledge of their pool may be older than the blocks.
  std::optional<std::uint64_t> pools_generation_;
  std::uint64_t generation_ = 0;  // own_.Generation() whose blocks ReadBlocks returned last
};

}  // namespace berth::agent
