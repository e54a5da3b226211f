// SPDX-License-Identifier: Apache-2.0
// OwnBlocks: this node's blocks in memory, and group commit: one patch in flight per block, carrying every change that
// waits for it.
//
// The first caller that finds a block without a patch in flight sends what has gathered, its own change among it; the
// others wait for the answer. So a single caller sends one patch at once, and many share one. What a call is told is in
// the block already. What nobody waits for (EditLater) goes with the next patch, or on its own a little later. So does
// who got an address that was on standby (HandOut).
//
// Rules that hold here:
//   - A write is a merge patch with the resourceVersion it was decided on. After a conflict all is decided again.
//   - A write of which the answer was lost is settled by a later write that changes the object, or by a version that is
//     newer than the one it was decided on. Until then its attachments are in doubt (InDoubt), and DEL fences.
//   - A held entry that somebody else removed or replaced is written again, unless it was freed with its mark. A
//     cooling entry is not.
//   - Also an entry that the controller freed with its mark is written again if the container's network namespace is
//     still there: its pod is gone, but the container may still use the address.
//   - What is older than what is known is not believed, whatever block of that name it shows. Only where a write finds
//     that the API server itself has gone back (a backup was restored) is it the truth, and what was known since is
//     put back to the letter, what was given back since included, before anything is handed out.
//   - Another instance in `agent` may mean that this agent was replaced: the node's files say so, and it writes nothing
//     any more. Else it writes each block once more before it hands out anything of it. What an agent of another
//     machine has on standby is left there for a minute; if that one comes back meanwhile, changes fail and name both.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "ipam/block_store.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "node/handed_out.h"

namespace berth::agent {

using SteadyTime = std::chrono::steady_clock::time_point;

// resourceVersions of one kind are ordered numbers (KEP-5504); 0 for anything else.
[[nodiscard]] std::uint64_t VersionOf(std::string_view resource_version);
[[nodiscard]] inline std::uint64_t VersionOf(const ipam::Block& block) { return VersionOf(block.resource_version); }

// What happens to blocks, for metrics and logs; called without a lock held, from any thread.
class BlockObserver {
 public:
  BlockObserver() = default;
  BlockObserver(const BlockObserver&) = delete;
  BlockObserver& operator=(const BlockObserver&) = delete;
  virtual ~BlockObserver() = default;

  virtual void Conflict(const std::string& block) = 0;
  virtual void Batch(const std::string& block, std::size_t changes) = 0;
  virtual void InDoubt(const std::string& block, const Error& error) = 0;
  // An address was handed out and can't be written: the API server refuses that (it is tried again), or the block is
  // gone or somebody else wrote another entry there (it is not).
  virtual void HandedOutRefused(const std::string& block, const std::string& entry, const Error& error) = 0;
  virtual void HandedOutLost(const std::string& block, const std::string& entry) = 0;
  // The API server drops `standby`: its CRD is older than this agent.
  virtual void StandbyNotKept() = 0;
  // Somebody removed an entry without a mark; it will be written again.
  virtual void Vanished(const std::string& block, const std::string& entry) = 0;
  // The controller freed the address of a container whose network namespace is still there; it will be written again.
  virtual void StillInUse(const std::string& block, const std::string& entry) = 0;
  // It freed one of a container whose network namespace is gone.
  virtual void FreedRightly(const std::string& block, const std::string& entry) = 0;
  // The API server's data is older than what it answered before: it was restored from a backup.
  virtual void WentBack(const std::string& block) = 0;
  // Another instance wrote the block. Whether this one is still the node's agent; if not, the process is to end.
  [[nodiscard]] virtual bool IsStillOurs() = 0;
  // It is; nobody knows of the other.
  virtual void MetAnother(const std::string& block, const std::string& agent) = 0;
};

struct OwnBlocksOptions {
  std::string node;
  std::string instance;  // "<machine>-<run of the agent>"
  // So many addresses of a block that is in use are kept on standby; 0: every edit is written first.
  std::size_t standby = 0;
  // Whether the node may have a network namespace of that name. Must not wait for anything; empty: nobody can tell.
  std::function<bool(const std::string& netns)> may_have_netns = {};
};

class OwnBlocks {
 public:
  // api, clock and observer must outlive this.
  OwnBlocks(k8sclient::Api& api, k8sclient::Clock& clock, OwnBlocksOptions options, BlockObserver& observer);

  // Every block known, in order of name, with what is to be written again; of those that came at that generation or
  // earlier.
  [[nodiscard]] std::vector<ipam::BlockView> Snapshot(std::uint64_t until = UINT64_MAX) const;
  // Their names alone, without making the blocks as Snapshot shows them.
  [[nodiscard]] std::set<std::string> Names() const;
  // Grows whenever a block comes or goes.
  [[nodiscard]] std::uint64_t Generation() const;

  // Takes over a block read from the API server: raises `agent`, so that nothing an earlier agent or call sent can
  // still land, and takes all off standby but what `standby` says of the newest version, and what another machine has.
  // kUnknown: only as long as the block is not known here. Errors: those of the write; kNotFound: it is gone, or not
  // this node's; kConflict: it was to be unknown, and another thread brought it in.
  using StandbyOf = std::function<ipam::OffsetSet(const ipam::Block&)>;
  enum class FenceWhat : std::uint8_t { kAny, kUnknown };
  [[nodiscard]] Expected<void> Fence(const ipam::BlockView& seen, SteadyTime deadline, const StandbyOf& standby,
                                     FenceWhat what = FenceWhat::kAny);
  // The block as the API server has it, of whatever node.
  [[nodiscard]] Expected<ipam::BlockView> Read(const std::string& name, SteadyTime deadline);
  [[nodiscard]] bool Knows(const std::string& block) const { return FindSlot(block) != nullptr; }

  // A block that this agent created just now.
  void Insert(const ipam::BlockView& created);

  // As BlockStore::Edit, for a block that is known. A change that is not sent yet at the deadline is withdrawn
  // (kTimeout); one that was sent ends with kUnknownOutcome. With edit.take_standby it is withdrawn as well if an
  // address can be handed out by the time that the change could be sent: then this returns nullptr.
  [[nodiscard]] Expected<ipam::BlockView> Edit(const ipam::BlockView& seen, const ipam::BlockEdit& edit,
                                               SteadyTime deadline);

  // The same without waiting: it goes out with the block's next patch, at most kLinger later (or as long as a patch
  // takes, up to kLingerMax). `done` is called once with what Edit would return, from any thread, maybe before this
  // returns, without a lock held. Until then Snapshot shows the block as it will be. Requires: an edit that fails
  // leaves the block as it was.
  using EditDone = std::function<void(const Expected<ipam::BlockView>&)>;
  void EditLater(const ipam::BlockView& seen, const ipam::BlockEdit& edit, SteadyTime deadline, const EditDone& done);
  // Takes an address that is on standby, by edit.take_standby, and returns the block as Snapshot shows it from now on;
  // it is written as by EditLater, and again until it is in. `settled` is called once, from any thread, maybe before
  // this returns, when the entry is in or was given back; not if this agent ends before. nullptr: none is on standby,
  // or the block's writes do not go well: Edit tells.
  [[nodiscard]] ipam::BlockView HandOut(const ipam::BlockView& seen, const ipam::BlockEdit& edit, SteadyTime deadline,
                                        std::function<void()> settled);
  // What an earlier agent handed out of a block that was fenced just now: as if this one had. Nothing is left of it if
  // the block is another one by now.
  void Resume(const node::HandedOut& note, std::function<void()> settled);
  // Whether that is still to be written.
  [[nodiscard]] bool IsHandedOut(const std::string& block, const ipam::Attachment& attachment) const;
  // Attachments of all that is.
  [[nodiscard]] std::set<ipam::Attachment> HandedOut() const;
  // Sends what could not be written, and takes off standby what pools do not assign any more, by `stand_by` of a block.
  // `failed` is called as EditLater calls `done`, for each failure.
  // Also makes sure of blocks that the API server may have forgotten.
  void WriteHandedOut(SteadyTime deadline, const std::function<void(const Error&)>& failed);
  using StandBy = std::function<void(ipam::Block&, std::size_t wanted)>;
  void RenewStandby(const ipam::BlockView& seen, const StandBy& stand_by, SteadyTime deadline);
  // Reads a block, if none was read or written for some time that shows whether the API server keeps `standby`.
  void ProveStandby(SteadyTime deadline);
  // Sends such changes when their time has come, until Stop: for a thread of its own.
  void SendLate();
  // Waits until none is left, at most that long.
  void AwaitLate(SteadyTime deadline);

  // Whether any block holds an entry of the attachment.
  [[nodiscard]] bool Holds(const ipam::Attachment& attachment) const;

  // Writes of the attachment whose outcome is not known, as intents.
  [[nodiscard]] std::vector<ipam::OpenIntent> InDoubt(const ipam::Attachment& attachment) const;
  void CloseIntent(const ipam::OpenIntent& intent);

  // From a list: the block as somebody has written it.
  void Observe(const ipam::BlockView& seen, SteadyTime deadline);
  // From a watch, which tells of this agent's own writes too: that the block has this version. It is read if the
  // version is news.
  void ObserveVersion(const std::string& name, std::uint64_t version, SteadyTime deadline);
  // The block with that uid is gone. (Another of the same name may be there.)
  void ObserveGone(const std::string& name, const std::string& uid, SteadyTime deadline);
  // A list showed the block in that version; 0: not at all. Where that is older than what is known, looks whether the
  // list is, or the block is gone, or the API server has gone back. Errors: those of reading it.
  Expected<void> ObserveListed(const std::string& name, std::uint64_t version, SteadyTime deadline);

  [[nodiscard]] const std::string& node() const { return options_.node; }
  // `agent` of a block that this run creates.
  [[nodiscard]] std::string AgentField() const { return instance() + ".0"; }
  [[nodiscard]] const std::string& instance() const { return options_.instance; }

  // After this every edit fails with kUnavailable: the process ends.
  void Stop();
  [[nodiscard]] bool stopped() const;

  struct Slot;  // own_blocks_slot.h

 private:
  struct Waiter;
  struct Stranger;
  using SlotPointer = std::shared_ptr<Slot>;
  using Waiters = std::vector<std::shared_ptr<Waiter>>;
  struct Round;

  // nullptr: not known.
  [[nodiscard]] SlotPointer FindSlot(const std::string& name) const;
  [[nodiscard]] Expected<ipam::BlockView> WriteInSlot(const SlotPointer& slot, const ipam::BlockEdit& edit,
                                                      SteadyTime deadline);
  // What may be handed out of a block now: nothing while its writes do not go well.
  [[nodiscard]] ipam::OffsetSet OnStandby(const Slot& slot) const BERTH_REQUIRES(mutex_);
  // Gathers what waits, sends it, by the deadline, and lets the next batch begin. Requires: this thread set slot->busy.
  void SendBatch(const SlotPointer& slot, SteadyTime deadline) BERTH_EXCLUDES(mutex_);
  // The thread in the queue that has the most time; nullptr: no thread waits there.
  [[nodiscard]] static std::shared_ptr<Waiter> SenderOf(const Slot& slot);
  // Whoever is to send what is left in the queue.
  void WakeNext(const Slot& slot) BERTH_REQUIRES(mutex_);
  // This agent ends: nobody waits any longer.
  void WakeAll(Slot& slot) BERTH_REQUIRES(mutex_);
  void QueueLate(Slot& slot, const ipam::BlockEdit& edit, std::chrono::milliseconds linger, SteadyTime deadline,
                 const EditDone& done) BERTH_REQUIRES(mutex_);
  // The round's changes applied to the newest version. nullopt: an address was handed out meanwhile that they take.
  [[nodiscard]] std::optional<ipam::Block> TryDecide(const SlotPointer& slot, Round& round);
  // What the round carried is in, or was given back. Calls what waits for it.
  void SettleHandedOut(const SlotPointer& slot, const Round& round);
  // One patch each: something of it is refused.
  void SendHandedOutApart(const SlotPointer& slot, SteadyTime deadline);
  void Refuse(const SlotPointer& slot, ipam::BlockOffset offset, const Error& error);
  // Until all of the round's waiters have a result.
  void Run(const SlotPointer& slot, Round& round);
  // What `changed` is to have on standby, by the newest edit that knows the pool: nothing, if it holds nothing.
  void ChooseStandby(const SlotPointer& slot, const Round& round, ipam::Block& changed);
  // A block as it was read after that version was known.
  void ObserveRead(const ipam::BlockView& read, std::uint64_t known, SteadyTime deadline);
  // An API server whose CRD is older drops `standby`.
  [[nodiscard]] bool MayStandBy() const { return options_.standby > 0 && !drops_standby_; }
  [[nodiscard]] bool IsProofDue() const;
  // Not proven for a minute: the controller may have taken the node for gone, and given the addresses to others.
  [[nodiscard]] bool IsProofLate() const;
  // Of what was asked for at that time since boot. After a lapse it says nothing of other blocks, which may have been
  // given to other nodes meanwhile: each is to be proved by itself.
  void TakeProof(std::chrono::nanoseconds asked, bool is_kept);
  // The block as Snapshot shows it.
  [[nodiscard]] ipam::Block Shown(const Slot& slot) const BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool IsShownAsWritten(const Slot& slot) const BERTH_REQUIRES(mutex_);
  // What waits of EditLater leaves the queue.
  [[nodiscard]] Waiters TakeLate(Slot& slot) BERTH_REQUIRES(mutex_);
  // Sends what the waiters want and finishes each of them, by its deadline. Requires: this thread set slot->busy.
  void Commit(const SlotPointer& slot, Round round);
  // One decision and one request. False: decide again.
  [[nodiscard]] bool CommitOnce(const SlotPointer& slot, Round& round);
  [[nodiscard]] bool Settle(const SlotPointer& slot, Round& round);
  [[nodiscard]] ipam::Block Decide(const SlotPointer& slot, Round& round);
  [[nodiscard]] bool AfterFailure(const SlotPointer& slot, Round& round, const Error& error);
  [[nodiscard]] bool AfterConflict(const SlotPointer& slot, Round& round, const Error& error);
  // A failure says nothing about a patch before it, which may be in or land later: then the outcome is not known.
  [[nodiscard]] Error OfRound(const SlotPointer& slot, const Round& round, Error error) const;
  void FinishAll(const SlotPointer& slot, Round& round, const Expected<ipam::BlockView>& result);
  void Finish(Waiter& waiter, const Expected<ipam::BlockView>& result);
  // A version of a block, from wherever; if it is news, finds out what somebody else did to it. False: what was seen is
  // a later block of that name, so this one is gone and forgotten.
  bool Adopt(const SlotPointer& slot, const ipam::BlockView& seen);
  // As Adopt, of the version that a write met which nothing newer explains.
  [[nodiscard]] Error GoBack(const SlotPointer& slot, const ipam::BlockView& seen);
  // The changes of others that the observer is told of, as texts of entries.
  struct Noticed {
    std::vector<std::string> vanished;  // is put back
    std::vector<std::string> in_use;    // is put back
    std::vector<std::string> freed;
  };
  void Tell(const std::string& block, const Noticed& noticed);
  // Takes what was seen for the truth, but for what is to be put back. Requires: it is the slot's block.
  [[nodiscard]] Noticed See(Slot& slot, const ipam::BlockView& seen) BERTH_REQUIRES(mutex_);
  // The entry that the controller freed where this text is, if its container's network namespace is or may be there.
  [[nodiscard]] std::optional<std::string> StillInUse(const std::string& text, Noticed& noticed) const;
  // A call of this agent that gives the address back is under way.
  [[nodiscard]] static bool IsBeingChanged(const Slot& slot, const ipam::Attachment& attachment);
  // Whether what stands at an offset of a version is to become what was expected there. Requires: they differ.
  [[nodiscard]] bool IsOverwritten(const Slot& slot, const ipam::Block& seen, bool is_older, ipam::BlockOffset offset,
                                   const std::string& was) const;
  // `before`: the version that it was written over.
  void Insert(const ipam::BlockView& written, const ipam::BlockView& before);
  // Whether another run of the agent wrote the version; one that knows other files.
  [[nodiscard]] bool IsForeign(const ipam::Block& block) const;
  [[nodiscard]] bool IsOfAnotherMachine(const ipam::Block& block) const;
  // Sets aside what such a version has on standby, but for what this agent expected to have there, or to hold.
  void MeetStranger(Slot& slot, const ipam::Block& seen, const ipam::Block& expected) BERTH_REQUIRES(mutex_);
  // It was not met for a minute.
  void PartFromStranger(Slot& slot) BERTH_REQUIRES(mutex_);
  // Why nothing is written: another agent came back.
  [[nodiscard]] std::optional<Error> Contested(const Slot& slot) const;
  // kNotFound, for whoever waits for it.
  void Forget(const SlotPointer& slot);
  // Sends what is to be put back, if there is any, and the fence that another instance asks for.
  void WriteAgain(const SlotPointer& slot, SteadyTime deadline);
  // Sent at `asked`, since boot.
  [[nodiscard]] Expected<ipam::BlockView> Patch(const ipam::Block& before, const ipam::Block& after,
                                                std::chrono::nanoseconds asked, SteadyTime deadline);
  [[nodiscard]] std::string NextFence();

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  const OwnBlocksOptions options_;
  BlockObserver& observer_;
  std::atomic<bool> drops_standby_ = false;                                              // as the API server has shown
  std::atomic<std::chrono::nanoseconds> proof_due_ = std::chrono::nanoseconds::min();    // since boot
  std::atomic<std::chrono::nanoseconds> lapse_ended_ = std::chrono::nanoseconds::min();  // since boot

  mutable Mutex mutex_;  // also guards what slots and waiters hold
  std::map<std::string, SlotPointer> slots_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t generation_ BERTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t fences_ BERTH_GUARDED_BY(mutex_) = 0;  // counter of the `agent` field
  bool stopped_ BERTH_GUARDED_BY(mutex_) = false;
  std::size_t late_count_ BERTH_GUARDED_BY(mutex_) = 0;  // changes of EditLater that are not done
  std::condition_variable late_;                         // for SendLate: there is one that no caller will send
  SteadyTime late_wakes_ BERTH_GUARDED_BY(mutex_) = SteadyTime::min();  // when SendLate looks again by itself
  std::condition_variable late_is_over_;                                // late_count_ has become 0
};

}  // namespace berth::agent
