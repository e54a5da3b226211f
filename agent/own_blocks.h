// SPDX-License-Identifier: Apache-2.0
// OwnBlocks keeps this node's blocks in memory, and writes them with group commit: each block has at most one patch
// under way, and each patch carries all changes that wait for the block.
//
// agent_core::Core makes all decisions, under one lock. OwnBlocks drives the core: the calls' threads wait here,
// OwnBlocks sends the requests that the core asks for, and passes the core's news to callers and to the observer.
//
// If no patch of a block is under way, the first caller sends all waiting changes together with its own change; the
// other callers wait for the answer. So a single caller sends a patch at once, and many callers share one patch. A
// waiting caller is answered only after the block is written. Deferred changes (EditDeferred) and entries of handed-out
// addresses (HandOut) go with the next patch, or with a patch of their own after 20 to 250 ms (LingerOf).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent_core/core.h"
#include "base/mutex.h"
#include "ipam/block_store.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "node/node_directory.h"

namespace berth::agent {

// Time limit of one API request.
inline constexpr std::chrono::seconds kRequestMax{10};

using agent_core::SteadyTime;
using agent_core::VersionOf;

// Receives events of blocks, for metrics and logs. OwnBlocks calls it without a lock held, from any thread.
class BlockObserver {
 public:
  BlockObserver() = default;
  BlockObserver(const BlockObserver&) = delete;
  BlockObserver& operator=(const BlockObserver&) = delete;
  virtual ~BlockObserver() = default;

  virtual void Tell(const agent_core::Report& report) = 0;
  // Called when a request of a batch has failed, before the batch goes on. Answered DELs that wait for the next patch
  // may now wait for long.
  virtual void NoteFailedRequest(const Error& error) = 0;
  // Called when another instance wrote a block. Returns whether this agent still serves the node; if not, the process
  // has to end.
  [[nodiscard]] virtual bool IsStillOurs() = 0;
};

class OwnBlocks {
 public:
  // api, clock and observer must outlive this object.
  OwnBlocks(k8sclient::Api& api, k8sclient::Clock& clock, node::NodeDirectory directory,
            agent_core::CoreOptions options, BlockObserver& observer);

  // Returns all known blocks as agent_core::Shown shows them, sorted by name; with `until`, only blocks that were added
  // at this generation or earlier.
  [[nodiscard]] std::vector<ipam::BlockView> Snapshot(std::uint64_t until = UINT64_MAX) const;
  // Returns the names of all known blocks; cheaper than Snapshot.
  [[nodiscard]] std::set<std::string> Names() const;
  // Grows each time a block is added or forgotten.
  [[nodiscard]] std::uint64_t Generation() const;

  // Takes over a block that was read from the API server. Writes a new value (`<instance>.<counter>`) to the field
  // `agent`, so that no earlier write of an agent or of berth-direct can land. Keeps on standby only addresses with a
  // note (NodeDirectory::ReadHandedOut), and addresses that an agent of another machine has on standby. From then on,
  // addresses with a note count as handed out by this agent. Requires: the caller holds the ownership of the node
  // (NodeDirectory::HoldNodeOwnership). Errors: those of the write; kNotFound: the block is gone, or belongs to another
  // node; kIo; kConflict: `is_new` says that the block was unknown a moment ago, but another thread has added it.
  [[nodiscard]] Expected<void> Fence(const ipam::BlockView& seen, SteadyTime deadline, bool is_new = false);
  // Like Fence, for a block that was unknown a moment ago, while the agent serves calls. If another thread has added
  // the block meanwhile, succeeds without a fence, because this agent may already have handed out its addresses.
  [[nodiscard]] Expected<void> TakeIn(const ipam::BlockView& seen, SteadyTime deadline);
  // Reads the block from the API server, whichever node it belongs to.
  [[nodiscard]] Expected<ipam::BlockView> Read(const std::string& name, SteadyTime deadline);
  [[nodiscard]] bool Knows(const std::string& block) const;

  // Adds a block that this agent has just created.
  void Insert(const ipam::BlockView& created) { Insert(created, created, {}); }

  // Like BlockStore::Edit, for a known block. If the deadline passes before the change is sent, Edit withdraws the
  // change and returns kTimeout; if the deadline passes later, Edit returns kUnknownOutcome. With
  // change.may_take_standby: if HandOut could give an address before the change is sent, Edit withdraws the change and
  // returns nullptr.
  [[nodiscard]] Expected<ipam::BlockView> Edit(const ipam::BlockView& seen, const ipam::Change& change,
                                               SteadyTime deadline);

  // Submits a deferred change, which goes with the block's next patch. If no other change causes a patch, the change
  // causes one after 20 ms (kLinger), or if patches take longer, after the time of a patch, at most 250 ms
  // (kLingerMax). `done` is called once with what Edit would return: from any thread, without a lock held, maybe before
  // EditDeferred returns. Until then Snapshot shows the block with the change.
  using EditDone = std::function<void(const Expected<ipam::BlockView>&)>;
  void EditDeferred(const ipam::BlockView& seen, const ipam::Change& change, const EditDone& done);
  // Gives the change's attachment an address on standby, and stores a note of the address, which is removed when the
  // entry is written, given back or lost. Returns the block as Snapshot shows it from now on. The entry goes with each
  // patch of the block, like a deferred change, until it is written. Returns nullptr if no address may be handed out,
  // or if the note cannot be stored; the caller then uses Edit. Requires: the caller holds the ownership of the node.
  // An exception ends the process: otherwise a patch would write an entry without a note, for an address that no caller
  // was told.
  [[nodiscard]] ipam::BlockView HandOut(const ipam::BlockView& seen, const ipam::Change& change) noexcept;
  // Returns the attachments of all handed-out addresses whose entries are not written.
  [[nodiscard]] std::set<ipam::Attachment> HandedOut() const;
  // Writes the notes of all handed-out addresses into `directory`, from which the next agent reads them. From now on
  // this object keeps its notes there. Errors: kIo.
  [[nodiscard]] Expected<void> MoveNotesTo(node::NodeDirectory directory);
  // Like Snapshot, without the blocks whose BlockState::upkeep_pause is on.
  [[nodiscard]] std::vector<ipam::BlockView> ForUpkeep() const;
  // Returns the attachments in doubt in the blocks whose upkeep_pause is on.
  [[nodiscard]] std::set<ipam::Attachment> InDoubtInPaused() const;
  // Makes RunFlusher send again what could not be written: handed-out addresses, entries to restore, and fences.
  void WriteHandedOut();
  // If the last proof is 30 s old, reads a block with standby, to see whether the API server keeps `standby`.
  void ProveStandby(SteadyTime deadline);
  // Sends deferred changes when they are due, until Stop. Runs in a thread of its own.
  void RunFlusher();
  // Waits until each deferred change has ended and its `done` was called, at most until the deadline or Stop.
  void AwaitDeferred(SteadyTime deadline);

  // Whether the attachment has an address of any block, even if the entry is not written.
  [[nodiscard]] bool Holds(const ipam::Attachment& attachment) const;

  // Returns the attachment's writes that are under way or in doubt, as intents.
  [[nodiscard]] std::vector<ipam::OpenIntent> InDoubt(const ipam::Attachment& attachment) const;
  void CloseIntent(const ipam::OpenIntent& intent);

  // Takes a version of a block that a list or read showed, because another program may have written the block. Writes
  // the block if entries have to be restored, or if the block needs a fence.
  void Observe(const ipam::BlockView& seen, SteadyTime deadline);
  // Takes a version from a watch, which also shows this agent's own writes. Reads the block if the version is newer
  // than the known one.
  void ObserveVersion(const std::string& name, std::uint64_t version, SteadyTime deadline);
  // Forgets the block with this uid, which was deleted. Keeps a known block with the same name and another uid. Waits
  // while a batch of the block is being sent; at the deadline, does nothing.
  void ObserveGone(const std::string& name, const std::string& uid, SteadyTime deadline);
  // Call when a list showed the block at `version` (0: the list lacks the block). If the known version is newer, reads
  // the block to find out whether the list is outdated, the block is gone, or the API server was restored from a
  // backup. Errors: those of the read.
  Expected<void> ObserveListed(const std::string& name, std::uint64_t version, SteadyTime deadline);

  [[nodiscard]] const std::string& node() const { return self_.node; }
  // Value of the field `agent` for a block that this agent creates.
  [[nodiscard]] std::string AgentField() const { return instance() + ".0"; }
  [[nodiscard]] const std::string& instance() const { return self_.instance; }

  // From now on every edit fails with kUnavailable, because the process ends.
  void Stop();
  [[nodiscard]] bool stopped() const;

 private:
  using StatePointer = agent_core::Core::StatePointer;
  // A pending result of a change or of a handed-out address: a thread waits for `changed`, or `done` is called.
  struct Waiter {
    EditDone done = nullptr;
    // Each waiter has its own condition variable, so that an answer wakes only the thread that waits for it.
    std::condition_variable changed = {};
    std::optional<Expected<ipam::BlockView>> result = {};
  };
  // Signals for the threads that work with one block.
  struct Signals {
    std::condition_variable idle;     // no batch is being sent
    std::condition_variable arrived;  // `expected` callers wait; wakes the sender that gathers changes
    // Number of callers at the end of the last batch: those in the batch, and those in the queue.
    std::size_t expected = 0;
  };
  using SignalsPointer = std::shared_ptr<Signals>;

  [[nodiscard]] agent_core::Now TimeNow() const;
  [[nodiscard]] std::shared_ptr<const node::NodeDirectory> Notes() const BERTH_EXCLUDES(mutex_);
  [[nodiscard]] StatePointer FindState(const std::string& name) const BERTH_EXCLUDES(mutex_);
  [[nodiscard]] SignalsPointer SignalsOf(const std::string& block) BERTH_REQUIRES(mutex_);
  // Returns nullptr if nobody waits for the result.
  [[nodiscard]] std::shared_ptr<Waiter> TakeWaiter(agent_core::ChangeId id) BERTH_REQUIRES(mutex_);
  // Tells the observer and the waiters, and releases the lock meanwhile. Call it before you release the lock under
  // which the core made the news.
  void Deliver(Lock& lock, const agent_core::News& news) BERTH_REQUIRES(mutex_);
  void Insert(const ipam::BlockView& written, const ipam::BlockView& before, const std::vector<node::HandedOut>& notes);
  // Stores `seen` in foreign_ if an agent of another machine wrote it. Returns the stored version of the block, or
  // nullptr. If the answer to this agent's fence was lost, `seen` shows the fence, and only the stored version shows
  // what the other agent wrote.
  [[nodiscard]] ipam::BlockView KeepOfAnotherMachine(const ipam::BlockView& seen) BERTH_EXCLUDES(mutex_);
  // Removes the note of the handed-out address when the core has settled it.
  void ForgetNoteOnceSettled(agent_core::ChangeId id, const ipam::Attachment& attachment, const std::string& block)
      BERTH_REQUIRES(mutex_);

  [[nodiscard]] Expected<ipam::BlockView> WriteIn(const StatePointer& state, const ipam::Change& change,
                                                  SteadyTime deadline);
  // Gathers the waiting changes, sends them by the deadline, and lets the next batch begin. Requires: this thread set
  // is_sending. An exception ends the process: otherwise is_sending would stay true, and no thread would ever write the
  // block again.
  void SendBatch(const StatePointer& state, SteadyTime deadline) noexcept BERTH_EXCLUDES(mutex_);
  [[nodiscard]] Expected<ipam::BlockView> Perform(const std::string& block, const agent_core::Step& step);
  [[nodiscard]] Expected<ipam::BlockView> Patch(const agent_core::Write& write);
  // Returns the queued change whose caller has the latest deadline; 0 if no caller waits.
  [[nodiscard]] static agent_core::ChangeId SenderOf(const agent_core::BlockState& state);
  // Wakes the thread that has to send the queued changes.
  void WakeNext(const agent_core::BlockState& state) BERTH_REQUIRES(mutex_);

  // Records the answer to a request that was sent at `asked`: `is_kept` says whether the API server keeps `standby`.
  void TakeProof(const agent_core::Now& asked, bool is_kept) BERTH_EXCLUDES(mutex_);
  // Adopts a version of the block, or keeps it until the batch under way has ended. Returns false if the block is gone
  // and forgotten.
  bool Learn(const StatePointer& state, const ipam::BlockView& seen);
  // If another instance wrote the block, checks whether it has replaced this agent, and if so, stops the core.
  void StopIfReplaced(const ipam::Block& seen);
  // Takes the answer to a read that began when this agent knew the version `known`.
  void ObserveRead(const ipam::BlockView& read, std::uint64_t known, SteadyTime deadline);

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  BlockObserver& observer_;
  const agent_core::Self self_;

  mutable Mutex mutex_;
  std::shared_ptr<const node::NodeDirectory> notes_ BERTH_GUARDED_BY(mutex_);  // has the notes of handed-out addresses
  agent_core::Core core_ BERTH_GUARDED_BY(mutex_);  // mutex_ also guards the states of the core's blocks
  std::map<agent_core::ChangeId, std::shared_ptr<Waiter>> waiters_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, SignalsPointer> signals_ BERTH_GUARDED_BY(mutex_);  // by block
  // By block, until a fence of the block has succeeded: the last version that an agent of another machine wrote.
  std::map<std::string, ipam::BlockView> foreign_ BERTH_GUARDED_BY(mutex_);
  std::condition_variable flusher_wakeup_;                                 // wakes RunFlusher, if no caller will send
  SteadyTime flusher_wakes_ BERTH_GUARDED_BY(mutex_) = SteadyTime::min();  // when RunFlusher wakes without a signal
  std::size_t delivering_ BERTH_GUARDED_BY(mutex_) = 0;                    // threads in Deliver
  // Notified when the last thread leaves Deliver, and by Stop.
  std::condition_variable no_deferred_left_;
};

}  // namespace berth::agent
