// SPDX-License-Identifier: Apache-2.0
// OwnBlocks: this node's blocks in memory, and group commit: one patch in flight per block, carrying every change that
// waits for it.
//
// agent_core::Core makes all decisions, under one lock. This class drives the core: it has the threads that wait, it
// sends the requests that the core asks for, and it tells callers and people what the core has to say.
//
// The first caller that finds a block without a patch in flight sends what has gathered, its own change among it; the
// others wait for the answer. So a single caller sends one patch at once, and many share one. What a call is told is in
// the block already. What nobody waits for (EditLater) goes with the next patch, or on its own a little later. So does
// who got an address that was on standby (HandOut).
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
#include "node/handed_out.h"

namespace berth::agent {

// The longest time of one request.
inline constexpr std::chrono::seconds kRequestMax{10};

using agent_core::SteadyTime;
using agent_core::VersionOf;

// What happens to blocks, for metrics and logs; called without a lock held, from any thread.
class BlockObserver {
 public:
  BlockObserver() = default;
  BlockObserver(const BlockObserver&) = delete;
  BlockObserver& operator=(const BlockObserver&) = delete;
  virtual ~BlockObserver() = default;

  virtual void Tell(const agent_core::Report& report) = 0;
  // Another instance wrote a block. Whether this one is still the node's agent; if not, the process is to end.
  [[nodiscard]] virtual bool IsStillOurs() = 0;
};

class OwnBlocks {
 public:
  // api, clock and observer must outlive this.
  OwnBlocks(k8sclient::Api& api, k8sclient::Clock& clock, agent_core::CoreOptions options, BlockObserver& observer);

  // Every block known, in order of name, with what is to be written again; of those that came at that generation or
  // earlier.
  [[nodiscard]] std::vector<ipam::BlockView> Snapshot(std::uint64_t until = UINT64_MAX) const;
  // Their names alone, without making the blocks as Snapshot shows them.
  [[nodiscard]] std::set<std::string> Names() const;
  // Grows whenever a block comes or goes.
  [[nodiscard]] std::uint64_t Generation() const;

  // Notes of the addresses that earlier agents handed out, of any block. HandOut says when `settled` is called.
  struct Notes {
    std::vector<node::HandedOut> all = {};
    std::function<void(const node::HandedOut&)> settled = nullptr;
  };
  // Takes over a block read from the API server: raises `agent`, so that nothing an earlier agent or call sent can
  // still land. What notes say was handed out counts as handed out by this agent, from the moment on at which the block
  // is known here. All else is off standby, but what another machine has.
  // kUnknown: only as long as the block is not known here. Errors: those of the write; kNotFound: it is gone, or not
  // this node's; kConflict: it was to be unknown, and another thread brought it in.
  enum class FenceWhat : std::uint8_t { kAny, kUnknown };
  [[nodiscard]] Expected<void> Fence(const ipam::BlockView& seen, SteadyTime deadline, const Notes& notes,
                                     FenceWhat what = FenceWhat::kAny);
  // The block as the API server has it, of whatever node.
  [[nodiscard]] Expected<ipam::BlockView> Read(const std::string& name, SteadyTime deadline);
  [[nodiscard]] bool Knows(const std::string& block) const;

  // A block that this agent created just now.
  void Insert(const ipam::BlockView& created) { Insert(created, created, {}); }

  // As BlockStore::Edit, for a block that is known. A change that is not sent yet at the deadline is withdrawn
  // (kTimeout); one that was sent ends with kUnknownOutcome. With change.may_take_standby it is withdrawn as well if an
  // address can be handed out by the time that the change could be sent: then this returns nullptr.
  [[nodiscard]] Expected<ipam::BlockView> Edit(const ipam::BlockView& seen, const ipam::Change& change,
                                               SteadyTime deadline);

  // The same without waiting: it goes out with the block's next patch, at most kLinger later (or as long as a patch
  // takes, up to kLingerMax). `done` is called once with what Edit would return, from any thread, maybe before this
  // returns, without a lock held. Until then Snapshot shows the block as it will be.
  using EditDone = std::function<void(const Expected<ipam::BlockView>&)>;
  void EditLater(const ipam::BlockView& seen, const ipam::Change& change, SteadyTime deadline, const EditDone& done);
  // Takes an address that is on standby, by the change, and returns the block as Snapshot shows it from now on; it is
  // written as by EditLater, and again until it is in. `settled` is called once, from any thread, maybe before this
  // returns, when the entry is in or was given back; not if this agent ends before. nullptr: none is on standby, or the
  // block's writes do not go well: Edit tells.
  [[nodiscard]] ipam::BlockView HandOut(const ipam::BlockView& seen, const ipam::Change& change, SteadyTime deadline,
                                        std::function<void()> settled);
  // Whether that is still to be written.
  [[nodiscard]] bool IsHandedOut(const std::string& block, const ipam::Attachment& attachment) const;
  // Attachments of all that is.
  [[nodiscard]] std::set<ipam::Attachment> HandedOut() const;
  // Sends what could not be written, and takes off standby what pools do not assign any more, by the plan of a block.
  // `failed` is called as EditLater calls `done`, for each failure.
  // Also makes sure of blocks that the API server may have forgotten.
  void WriteHandedOut(SteadyTime deadline, const std::function<void(const Error&)>& failed);
  void RenewStandby(const ipam::BlockView& seen, const ipam::StandbyPlan& plan, SteadyTime deadline);
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

  [[nodiscard]] const std::string& node() const { return self_.node; }
  // `agent` of a block that this run creates.
  [[nodiscard]] std::string AgentField() const { return instance() + ".0"; }
  [[nodiscard]] const std::string& instance() const { return self_.instance; }

  // After this every edit fails with kUnavailable: the process ends.
  void Stop();
  [[nodiscard]] bool stopped() const;

 private:
  using StatePointer = agent_core::Core::StatePointer;
  // A change that somebody wants to know the outcome of: a thread that waits, or a function.
  struct Waiter {
    EditDone done = nullptr;
    // Each waiter has one, so that an answer wakes only the thread that it is for.
    std::condition_variable changed = {};
    std::optional<Expected<ipam::BlockView>> result = {};
  };
  // What threads wait for of one block.
  struct Signals {
    std::condition_variable idle;     // nobody sends any more
    std::condition_variable arrived;  // as many callers wait as the thread that gathers expects
    std::size_t expected = 0;         // how many callers there were at the end of the last batch, sent and waiting
  };
  using SignalsPointer = std::shared_ptr<Signals>;

  [[nodiscard]] agent_core::Now TimeNow() const;
  [[nodiscard]] StatePointer FindState(const std::string& name) const BERTH_EXCLUDES(mutex_);
  [[nodiscard]] SignalsPointer SignalsOf(const std::string& block) BERTH_REQUIRES(mutex_);
  // News on the way to those whom they are for.
  struct Delivery {
    agent_core::News news = {};
    std::vector<std::shared_ptr<Waiter>> settled = {};  // of what was handed out
  };
  // nullptr: nobody wants to know.
  [[nodiscard]] std::shared_ptr<Waiter> TakeWaiter(agent_core::ChangeId id) BERTH_REQUIRES(mutex_);
  // Under the lock that the news came under. Deliver has to follow.
  [[nodiscard]] Delivery Prepare(agent_core::News&& news) BERTH_REQUIRES(mutex_);
  // Tells everybody.
  void Deliver(const Delivery& delivery) BERTH_EXCLUDES(mutex_);
  void Insert(const ipam::BlockView& written, const ipam::BlockView& before, const Notes& notes);

  [[nodiscard]] Expected<ipam::BlockView> WriteIn(const StatePointer& state, const ipam::Change& change,
                                                  SteadyTime deadline);
  // Gathers what waits, sends it, by the deadline, and lets the next batch begin. Requires: this thread set is_sending.
  void SendBatch(const StatePointer& state, SteadyTime deadline) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] Expected<ipam::BlockView> Perform(const std::string& block, const agent_core::Step& step);
  [[nodiscard]] Expected<ipam::BlockView> Patch(const agent_core::Write& write);
  // The caller in the queue that has the most time; 0: none waits there.
  [[nodiscard]] static agent_core::ChangeId SenderOf(const agent_core::BlockState& state);
  // Whoever is to send what is left in the queue.
  void WakeNext(const agent_core::BlockState& state) BERTH_REQUIRES(mutex_);

  // Of what was asked for then: whether the API server keeps `standby`.
  void TakeProof(const agent_core::Now& asked, bool is_kept) BERTH_EXCLUDES(mutex_);
  // A version of a block, from wherever, while no batch is sent. False: the block is gone and forgotten.
  bool Learn(const StatePointer& state, const ipam::BlockView& seen);
  // Another instance may have written it that has replaced this one.
  void LookWhoWrote(const ipam::Block& seen);
  // A block as it was read after that version was known.
  void ObserveRead(const ipam::BlockView& read, std::uint64_t known, SteadyTime deadline);
  // Sends what is to be put back, if there is any, and the fence that another instance asks for.
  void WriteAgain(const StatePointer& state, SteadyTime deadline);

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  BlockObserver& observer_;
  const agent_core::Self self_;

  mutable Mutex mutex_;
  agent_core::Core core_ BERTH_GUARDED_BY(mutex_);  // and the states of its blocks
  std::map<agent_core::ChangeId, std::shared_ptr<Waiter>> waiters_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, SignalsPointer> signals_ BERTH_GUARDED_BY(mutex_);  // by block
  std::condition_variable late_;                                            // for SendLate: no caller will send
  SteadyTime late_wakes_ BERTH_GUARDED_BY(mutex_) = SteadyTime::min();      // when SendLate looks again by itself
  std::size_t delivering_ BERTH_GUARDED_BY(mutex_) = 0;                     // threads that tell outcomes
  std::condition_variable late_is_over_;                                    // no change is late any more
};

}  // namespace berth::agent
