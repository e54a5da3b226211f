// SPDX-License-Identifier: Apache-2.0
// Agent: serves the CNI calls of one node from its blocks in memory.
//
// What survives what (docs/failures.md): a restart loses nothing, since every answered ADD is in a block, every DEL
// that could not be written is in the journal, and the first thing a new agent does is to write each of its blocks
// once, after which nothing its predecessor sent can land.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/agent_store.h"
#include "agent/attachment_gate.h"
#include "agent/block_watches.h"
#include "agent/cluster_view.h"
#include "agent/journal.h"
#include "agent/left_alone.h"
#include "agent/metrics.h"
#include "agent/own_blocks.h"
#include "agent/shared_holdings.h"
#include "agent/warm_blocks.h"
#include "base/mutex.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "ipam/engine.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "k8sclient/server_clock.h"
#include "k8sclient/verbs.h"
#include "node/node_directory.h"

namespace berth::agent {

struct AgentOptions {
  std::string node;
  std::string state_dir = "/var/lib/berth";  // the node's mode, journal, queued DELs: on disk
  std::string run_dir = "/run/berth";        // what a reboot may lose: the socket's folder
  std::string netns_dir = "/run/netns";      // where the runtime keeps containers' network namespaces
  std::string server;                        // the API server's address, which tells one cluster's files from another's
  // Made when blocks are loaded; from then on a restart is no reason to make the node NotReady. Empty: none is made.
  std::string loaded_mark = {};
  // Addresses of a block in use that are kept on standby, to be handed out before they are written (docs/adr/0008). At
  // most 64: what an IPBlock takes.
  std::size_t standby = 64;
  // A node that uses nothing of a small pool looks at a moment in this time whether it may claim a block ahead.
  std::chrono::milliseconds looks_within = std::chrono::seconds(10);
  bool watches_blocks = true;
  bool reads_pods = false;  // annotations by a GET of the pod where the runtime hands over none
};

// What says that the API server is away, as opposed to its refusing something.
[[nodiscard]] bool IsAway(ErrorCode code);

// What goes back to the caller: CNI's result or error object.
struct Reply {
  bool ok = false;
  bool took = false;  // an ADD that took something new
  std::string body;
  // For an ADD, until the answer was delivered: GC leaves its address alone.
  std::shared_ptr<void> hold;
  // Gives back what the ADD took, for an answer that could not be delivered; may be empty.
  std::function<void()> take_back;
};

class Agent final : private BlockObserver {
 public:
  // Makes its folders, sends nothing, and takes nothing from an agent that serves: that is Start's. api and clock must
  // outlive the agent. `replaced` is called once, from any thread, when another agent of this node has taken over:
  // this one is of no use any more. Errors: kIo; kUnavailable: this node is berth-direct's.
  [[nodiscard]] static Expected<std::unique_ptr<Agent>> Make(k8sclient::Api& api, k8sclient::Clock& clock,
                                                             AgentOptions options, std::function<void()> replaced);
  ~Agent() override;

  // Begins to load, in a thread; calls that come meanwhile wait. Requires: whoever looks for an agent finds it
  // listening (node/del_queue.h).
  void Start();
  // In place of Start: writes all that is still to be written, fences the blocks, and leaves the node to berth-direct.
  // Errors: what is left to be done; the node is the agent's as before.
  [[nodiscard]] Expected<void> Retire(std::chrono::milliseconds limit);
  // In place of Start, for thousands of agents in one process: what a start asks of the API server but for the watches,
  // in this thread. Returns when no pool lacks a block ahead, or stop is requested.
  void LoadAndClaim(const std::stop_token& stop);
  // Calls that come from now on are refused; those under way go on.
  void BeginStop();
  // Waits for calls under way and what they left to be written, at most that long.
  void Drain(std::chrono::milliseconds limit);

  // One call, as docs/agent-protocol.md has it. Throws nothing: a bug is an error reply with code 999.
  [[nodiscard]] Reply Handle(std::string_view body);
  // The queue is full: what Handle would answer.
  [[nodiscard]] static Reply Busy();

  [[nodiscard]] bool IsReady() const;
  [[nodiscard]] std::string DebugBlocks() const;
  [[nodiscard]] std::string MetricsText();

 private:
  class CountedCall;
  struct Call;

  struct Files {
    std::string instance;
    node::NodeDirectory directory;
    node::Folder state;
  };
  Agent(k8sclient::Api& api, k8sclient::Clock& clock, AgentOptions options, std::function<void()> replaced,
        Files files);

  [[nodiscard]] Reply HandleChecked(std::string_view body);
  [[nodiscard]] Reply Serve(const cni::Environment& environment, const cni::NetworkConfig& config,
                            std::int64_t started_nanos);
  [[nodiscard]] Expected<Reply> Dispatch(Call& call);
  [[nodiscard]] Expected<Reply> Add(Call& call);
  [[nodiscard]] Expected<void> Del(Call& call);
  [[nodiscard]] Expected<void> Check(Call& call);
  // Errors: those of the GET; kUnavailable: another pod has that name by now.
  [[nodiscard]] Expected<void> ReadPodAnnotations(const cni::Environment& environment,
                                                  cni::NetworkConfig& config) const;
  // Takes out what the attachment holds. What is in own blocks is in the journal when this returns, and is written
  // later: it keeps the attachment's turn until then. `then`, which may be empty, is called once when all is done or
  // has failed. Errors: what is not in own blocks may be left.
  [[nodiscard]] Expected<void> Release(AgentStore& store, ipam::Engine& engine, const ipam::Attachment& attachment,
                                       std::shared_ptr<void> turn, LateEdits::Then then);
  // The API server is away: what is left of DELs is the journal's.
  void GoAway();
  // Whether nothing of the attachment is recorded in what is known, or may be. Requires: its turn; ready.
  [[nodiscard]] bool HoldsNothing(AgentStore& store, const ipam::Attachment& attachment) const;
  // Nothing of it is recorded, as far as this agent knows. Asked last: a successor may have given it an address, or
  // have found a note of one and write that again. With `may_be_left`, which says that a block that was left alone
  // before anything was looked for may hold it, the DEL stays in the journal until that block is known. Errors:
  // kUnavailable: there is a successor; kIo.
  [[nodiscard]] Expected<void> ConcludeFreed(const ipam::Attachment& attachment, bool may_be_left);
  // A DEL that is to be done later goes to the journal. Errors: kIo; kUnavailable: this agent was replaced.
  [[nodiscard]] Expected<void> WriteDown(const ipam::Attachment& attachment, JournalSync sync);
  [[nodiscard]] Expected<void> WaitUntilReady(SteadyTime deadline);
  [[nodiscard]] std::unexpected<Error> NotLoaded(ErrorCode code) const BERTH_REQUIRES(mutex_);

  [[nodiscard]] AgentStoreParts Parts() {
    return {.own = own_, .view = view_, .turns = turns_, .shared = shared_, .api = api_, .directory = directory_};
  }

  // An agent of this node, this one or an earlier, has loaded since boot.
  [[nodiscard]] bool HasLoadedSinceBoot() const;
  void LeaveLoadedMark() const;

  void Load(const std::stop_token& stop);
  // False: stopped before.
  [[nodiscard]] bool LoadUntilDone(const std::stop_token& stop);
  // From here on this agent is the node's: an earlier one creates no block and journals nothing any more.
  [[nodiscard]] Expected<void> TakeOver();
  [[nodiscard]] Expected<void> LoadOnce();
  // What `berth` has answered without an agent goes into the journal.
  [[nodiscard]] Expected<void> TakeQueuedDels();
  [[nodiscard]] Expected<void> RetireOnce(SteadyTime end);
  [[nodiscard]] Expected<void> SettleLeftIntents();
  struct ListedBlocks {
    std::vector<ipam::BlockView> blocks = {};
    LeftAlone::Blocks left_alone = {};  // cannot be understood
  };
  [[nodiscard]] Expected<ListedBlocks> ListOwnBlocks(k8sclient::ListOptions options);
  // Takes them over, and writes what an earlier agent had handed out.
  [[nodiscard]] Expected<void> FenceOwnBlocks();
  void Keep(const std::stop_token& stop);
  // Writes what is pending; what a call is about to write is left to that.
  void ReplayJournal();
  void CompactJournal();
  void ClaimAhead();
  void Resync();
  void FindBlocks();
  // The Node's number has risen above what this agent's blocks come to: the controller has made a block for it.
  [[nodiscard]] bool IsNumberAboveBlocks();
  // Before a call is told that a pool is exhausted: has the keeper look for blocks that others made for this node, at
  // most once a second. `known`: own_.Generation() before the call looked for an address. True: blocks have come since.
  [[nodiscard]] bool FoundBlocks(std::uint64_t known, SteadyTime deadline);
  void ReportOddBlocks() const;
  void Poke();
  // Ends, once: another agent is the node's, or this one's files are gone.
  void GiveWay();

  // Returns the name of the network namespace that the entry is to record. `path` is what CNI_NETNS says. Empty if
  // this agent does not see that namespace: a missing file would prove nothing later.
  [[nodiscard]] std::string NetnsToRecord(const std::string& path);

  void Tell(const agent_core::Report& report) override;
  [[nodiscard]] bool IsStillOurs() override;

  // Logs once after each change whether this machine's clock differs from the API server's.
  void ReportClock();

  // Entries record times of the API server's clock, and the agent compares them with that clock.
  k8sclient::ServerClock server_clock_;
  k8sclient::DatedApi dated_api_;
  k8sclient::Api& api_ = dated_api_;
  k8sclient::Clock& clock_ = server_clock_;
  const AgentOptions options_;
  std::function<void()> replaced_;
  std::once_flag replaced_once_;
  node::NodeDirectory directory_;
  const node::Folder state_;
  // Of the node, for as long as anything of this agent runs: calls of berth-direct wait.
  node::HeldFile lock_;
  std::unique_ptr<Journal> journal_;      // set once, before is_creator_
  std::atomic<bool> is_creator_ = false;  // has taken over
  // Set before ready_. From then on no earlier agent answers an ADD.
  std::atomic<node::BootNanos> ready_since_ = 0;
  Metrics metrics_;
  std::atomic<bool> told_netns_ = false;

  // Before what has threads that call Poke until they have ended.
  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool draining_ BERTH_GUARDED_BY(mutex_) = false;
  bool ready_ BERTH_GUARDED_BY(mutex_) = false;
  bool stopping_ BERTH_GUARDED_BY(mutex_) = false;
  bool poked_ BERTH_GUARDED_BY(mutex_) = false;
  std::string load_error_ BERTH_GUARDED_BY(mutex_);  // why loading has not worked yet

  OwnBlocks own_;
  LeftAlone left_alone_{own_, directory_, clock_};
  ClusterView view_;
  ClaimTurns turns_{clock_};
  SharedHoldings shared_;
  WarmBlocks warm_blocks_{Parts(), clock_, metrics_, options_.looks_within};
  AttachmentGate gate_;
  // The API server did not answer lately: DELs go to the journal without trying.
  std::atomic<bool> is_away_ = false;
  std::atomic<std::size_t> calls_ = 0;
  // Blocks may have come or gone that no watch tells of: a claim ahead whose answer did not come, or a restored backup.
  std::atomic<bool> wants_resync_ = false;
  std::uint64_t resyncs_ BERTH_GUARDED_BY(mutex_) = 0;
  SteadyTime next_look_ BERTH_GUARDED_BY(mutex_){};  // for a call that finds a pool exhausted
  std::uint64_t resyncs_before_look_ BERTH_GUARDED_BY(mutex_) = 0;

  BlockWatches block_watches_;
  std::jthread late_writer_;
  std::jthread loader_;
  std::jthread keeper_;
};

}  // namespace berth::agent
