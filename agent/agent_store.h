// SPDX-License-Identifier: Apache-2.0
// AgentStore: the engine's BlockStore in the agent: own blocks and pools from memory, the rest by request. One object
// per call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/cluster_view.h"
#include "agent/own_blocks.h"
#include "agent/shared_holdings.h"
#include "base/mutex.h"
#include "ipam/block_store.h"
#include "k8sclient/clock.h"
#include "node/direct_store.h"
#include "node/node_directory.h"

namespace berth::agent {

// Whose turn it is to claim a block of a pool, or to write a Shared one, and which pools have none to be claimed. Any
// thread.
class ClaimTurns {
 public:
  // The clock must outlive this.
  explicit ClaimTurns(k8sclient::Clock& clock) : clock_(clock) {}

  struct Turn {
    std::shared_ptr<void> hold;  // the turn ends with it; nullptr: time was over
    bool waited = false;
    ipam::BlockView left = nullptr;  // by the call whose turn it was before
  };
  // `patience`: how long one turn may last before nobody waits for its end any more.
  [[nodiscard]] Turn Begin(const std::string& what, SteadyTime deadline,
                           std::chrono::milliseconds patience = std::chrono::hours(1));
  // For whoever waits for the turn. Requires: it has not ended.
  void Leave(const std::string& what, const ipam::BlockView& written);

  // All blocks of the pool exist. That is believed until its status says something else, or for 30 to 60 s: thousands
  // of nodes would list all blocks with every ADD.
  void NoteAllClaimed(const ipam::Pool& pool);
  [[nodiscard]] bool IsAllClaimed(const ipam::Pool& pool) const;
  // Whether this node, which uses nothing of the pool, may list its blocks now: at first at a moment within that time,
  // and then every 30 to 60 s.
  [[nodiscard]] bool IsLookDue(const ipam::Pool& pool, std::chrono::milliseconds first_within);

 private:
  struct Taken {
    bool is_taken = false;
    SteadyTime since = {};  // it is taken
    int waiting = 0;
    ipam::BlockView left = nullptr;
  };
  struct AllClaimed {
    std::vector<ipam::Prefix> claimable;  // of the pool's status
    ipam::Uint128 block_count;
    SteadyTime until;
  };

  k8sclient::Clock& clock_;
  mutable Mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Taken> taken_ BERTH_GUARDED_BY(mutex_);             // and waited for
  std::map<std::string, AllClaimed> all_claimed_ BERTH_GUARDED_BY(mutex_);  // by UID
  std::map<std::string, SteadyTime> next_looks_ BERTH_GUARDED_BY(mutex_);   // by UID
};

// What the stores of all calls share; it must outlive them.
struct AgentStoreParts {
  OwnBlocks& own;
  ClusterView& view;
  ClaimTurns& turns;
  SharedHoldings& shared;
  k8sclient::Api& api;
  const node::NodeDirectory& directory;
};

// The edits that one call leaves behind (AgentStore::EditLater). Any thread.
class LateEdits {
 public:
  // `then` is called once, when all that began have ended, with the first failure; the call that makes this object
  // ends too.
  using Then = std::function<void(const std::optional<Error>& failure)>;
  explicit LateEdits(Then then) : then_(std::move(then)) {}

  void Begin();
  // A block that is gone is no failure: it holds nothing.
  void End(const std::optional<Error>& failure);

 private:
  Mutex mutex_;
  int open_ BERTH_GUARDED_BY(mutex_) = 1;  // the call's own part
  std::optional<Error> failure_ BERTH_GUARDED_BY(mutex_);
  Then then_ BERTH_GUARDED_BY(mutex_);
};

// Makes a block of this node the agent's, with all that an earlier one handed out of it and did not write.
// Requires: the caller holds the creator's place, or is the only one that could take it. Errors: those of
// OwnBlocks::Fence; kIo.
[[nodiscard]] Expected<void> TakeOverBlock(OwnBlocks& own, const node::NodeDirectory& directory,
                                           const ipam::BlockView& block, SteadyTime deadline,
                                           OwnBlocks::FenceWhat what = OwnBlocks::FenceWhat::kAny);
// The same for a block that was unknown a moment ago, while calls are served: if one of them brings it into memory
// first, nothing is left to do, and what it handed out since stays its own.
[[nodiscard]] Expected<void> TakeInBlock(OwnBlocks& own, const node::NodeDirectory& directory,
                                         const ipam::BlockView& block, SteadyTime deadline);

// A successor reads what is open on the node (intents, notes of what was handed out) once, when it becomes the creator,
// and gives back what nobody was told. So what rests on closing an intent, on a note, or on no write at all is
// concluded while this agent holds the creator's place (NodeDirectory::HoldCreator), or not at all.
class AgentStore final : public ipam::BlockStore {
 public:
  // The runtime must outlive the store.
  AgentStore(const AgentStoreParts& parts, ipam::Runtime& runtime, SteadyTime deadline);

  // From now on no edit of an own block takes longer than that: one block that cannot be written leaves time for
  // others.
  void LimitEdits(std::chrono::milliseconds limit) { edit_max_ = limit; }

  // From now on edits of own blocks succeed at once, and are in, or have failed, by that time. Not those that fence:
  // they settle what is in doubt.
  void EditLater(std::shared_ptr<LateEdits> late, SteadyTime deadline) {
    late_ = std::move(late);
    late_deadline_ = deadline;
  }

  // From now on an ADD may take an address on standby: what it is told is written by that time, or later.
  void HandOutStandby(SteadyTime deadline) {
    hands_out_ = true;
    late_deadline_ = deadline;
  }

  // Whether this ADD took an address that it could neither note nor write: nobody was told, and nobody must be.
  [[nodiscard]] bool leaves_unnoted() const { return leaves_unnoted_; }

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
  [[nodiscard]] Expected<ipam::BlockView> Create(const ipam::Block& block, const ipam::Attachment& attachment) override;
  [[nodiscard]] Expected<ipam::ClaimTurn> BeginClaim(const ipam::Pool& pool) override;
  void NoteAllClaimed(const ipam::Pool& pool) override { turns_.NoteAllClaimed(pool); }
  [[nodiscard]] Expected<std::vector<ipam::OpenIntent>> ReadOpenIntents(const ipam::Attachment& attachment) override;
  [[nodiscard]] Expected<void> CloseIntent(const ipam::OpenIntent& intent) override;

 private:
  // A block that this call created, of which the pool was not read since: not in memory.
  struct Unread {
    ipam::BlockView block;
    ipam::Attachment attachment;
  };
  // The pool as it is now; from then on a block of it that this call created is this node's. nullptr: there is none.
  [[nodiscard]] Expected<ipam::PoolView> ReadLatest(const std::string& name);
  [[nodiscard]] Expected<void> SettleUnread();
  [[nodiscard]] Expected<ipam::BlockView> EditShared(const ipam::BlockView& seen, const ipam::Change& change);
  // Of a block that is not in memory: claimed for this node by somebody else, or by a call whose answer was lost; or
  // another node's.
  [[nodiscard]] Expected<ipam::BlockView> EditUnknown(const ipam::BlockView& seen, const ipam::Change& change,
                                                      SteadyTime deadline);
  // What an edit of a block of this node ended with. A creation that was in doubt may have been seen by it.
  [[nodiscard]] Expected<ipam::BlockView> AfterEdit(const ipam::BlockView& seen, const ipam::Change& change,
                                                    Expected<ipam::BlockView> written);
  // nullopt: there is none to be had.
  [[nodiscard]] std::optional<Expected<ipam::BlockView>> HandOut(const ipam::BlockView& seen,
                                                                 const ipam::Change& change);
  // It was handed out and could not be noted: nobody may be told before it is written.
  [[nodiscard]] Expected<ipam::BlockView> WriteUnnoted(const ipam::BlockView& seen, const ipam::Attachment& attachment);

  OwnBlocks& own_;
  ClusterView& view_;
  ClaimTurns& turns_;
  SharedHoldings& shared_;
  const node::NodeDirectory& directory_;
  node::DirectStore remote_;
  SteadyTime deadline_;
  std::chrono::milliseconds edit_max_ = std::chrono::hours(1);
  std::shared_ptr<LateEdits> late_;
  bool hands_out_ = false;
  bool leaves_unnoted_ = false;
  SteadyTime late_deadline_{};
  Unread unread_;
  ipam::PoolView latest_pool_;  // read after this call created a block of it; or nullptr
  // Of own_, when this call last read pools, before that. It sees no blocks that came later: what it knows of their
  // pool may be older than they are.
  std::optional<std::uint64_t> pools_generation_;
  std::uint64_t generation_ = 0;  // of own_, when this call last read it, or as if it had then
};

}  // namespace berth::agent
