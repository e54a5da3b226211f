// SPDX-License-Identifier: Apache-2.0
// Agent serves the CNI calls of one node from its blocks in memory.
//
// A restart of the agent loses nothing (docs/failures.md). Each answered ADD is in a block or in a note under
// /run/berth. Each answered DEL is in a block or in the journal. Before a new agent serves calls, it writes each block
// of its node; after that, no write of the earlier agent can land.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/agent_store.h"
#include "agent/attachment_gate.h"
#include "agent/cluster_view.h"
#include "agent/journal.h"
#include "agent/metrics.h"
#include "agent/own_blocks.h"
#include "agent/quarantine.h"
#include "agent/warm_blocks.h"
#include "agent/watch_thread.h"
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
  std::string state_dir = "/var/lib/berth";  // folder on disk: the node's mode, the journal, queued DELs
  std::string run_dir = "/run/berth";        // the socket's folder, whose content a reboot may delete
  std::string netns_dir = "/run/netns";      // folder in which the runtime keeps network namespaces of containers
  std::string server;  // the API server's address, which distinguishes the files of different clusters
  // File that the agent creates when it has loaded its blocks. While the file exists, STATUS succeeds, so a restart of
  // the agent does not make the node NotReady. Empty: no file.
  std::string loaded_mark = {};
  // How many addresses of each block in use the agent keeps on standby (docs/adr/0008). At most 64, the limit of the
  // IPBlock's field `standby`.
  std::size_t standby = 64;
  // If the node uses no address of a pool with at most 1,024 blocks, the agent checks whether it may claim a further
  // block in advance: first at a random moment within this time, and then every 30 to 60 s.
  std::chrono::milliseconds looks_within = std::chrono::seconds(10);
  // A call that finds a pool exhausted waits at most this long until the maintenance loop has listed the node's blocks.
  std::chrono::milliseconds list_wait_max = std::chrono::seconds(2);
  bool watches_blocks = true;
  bool reads_pods = false;  // if the runtime passes no annotations, an ADD reads them with a GET of the pod
};

// Whether the error means that the API server is away: not reachable, without an answer in time, or unable to
// authenticate the agent.
[[nodiscard]] bool IsAway(ErrorCode code);

// The answer to a CNI call. `body` is CNI's result or error object.
struct Reply {
  bool ok = false;
  bool is_new = false;  // true: this ADD gave the attachment all addresses that it has
  std::string body;
  // For an ADD: while this pointer exists, other calls of the attachment wait. Keep the pointer until the answer is
  // delivered or the address is taken back.
  std::shared_ptr<void> hold;
  // Frees the addresses of an ADD whose answer could not be delivered. Empty unless is_new is true.
  std::function<void()> take_back;
};

class Agent final : private BlockObserver {
 public:
  // Creates the agent's folders. Sends no request and does not take over the node; Start does. api and clock must
  // outlive the agent. `replaced` is called once, from any thread, when this agent has to end: another agent has taken
  // over the node, or the node's directory was removed. Errors: kIo; kUnavailable: the node is in direct mode.
  [[nodiscard]] static Expected<std::unique_ptr<Agent>> Make(k8sclient::Api& api, k8sclient::Clock& clock,
                                                             AgentOptions options, std::function<void()> replaced);
  ~Agent() override;

  // Loads the blocks in a thread of its own; calls wait meanwhile. Requires: the agent's socket already listens, so
  // that `berth` queues no further DEL (node/del_queue.h).
  void Start();
  // Instead of Start: writes everything that is not written, fences the blocks, and sets the node's mode to direct.
  // Errors: what is left to do; the node stays in agent mode.
  [[nodiscard]] Expected<void> Retire(std::chrono::milliseconds limit);
  // Replaces Start in benchmarks with thousands of agents in one process. Sends the requests that Start sends, except
  // the watches, in the caller's thread. Returns when the agent has claimed all blocks that it claims in advance, or
  // when a stop is requested.
  void LoadAndClaim(const std::stop_token& stop);
  // From now on new ADDs, CHECKs and GCs fail, and new DELs go to the journal. Calls under way go on.
  void BeginStop();
  // Waits until the calls under way have ended and their deferred changes are written, at most `limit`.
  void Drain(std::chrono::milliseconds limit);
  // The node's lock, which the caller may hold longer than this agent lives. Not open: this agent has not taken over.
  [[nodiscard]] node::HeldFile KeepLock() const;

  // Serves one call (docs/agent-protocol.md). Does not throw: a bug gives an error reply with code 999.
  [[nodiscard]] Reply Handle(std::string_view body);
  // The reply to a call while the queue of calls is full.
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
  // Errors: those of the GET; kUnavailable: another pod has this name now.
  [[nodiscard]] Expected<void> ReadPodAnnotations(const cni::Environment& environment,
                                                  cni::NetworkConfig& config) const;
  // Frees the attachment's addresses. If the addresses are in own blocks, Release only adds the DEL to the journal:
  // deferred changes free the addresses later, and keep `turn` until then. `then` (may be empty) is called once, when
  // all addresses are freed or a write has failed. Errors: the attachment may still have addresses.
  [[nodiscard]] Expected<void> Release(AgentStore& store, ipam::Engine& engine, const ipam::Attachment& attachment,
                                       std::shared_ptr<void> turn, DeferredEdits::Then then);
  // Call when the API server is away: syncs the journal; from now on DELs go to the journal without a write. Does not
  // wake the maintenance loop, because the loop's own failed requests also call GoAway: each failed pass would start
  // the next pass at once.
  void GoAway();
  // Whether the attachment has no address and no write in doubt, as far as this agent knows. Requires: the caller has
  // the attachment's turn; the agent is ready.
  [[nodiscard]] bool HoldsNothing(AgentStore& store, const ipam::Attachment& attachment) const;
  // Ends a DEL whose attachment has no address, as far as this agent knows. If a successor (a later agent of this node)
  // has taken over the node, this agent cannot know: the successor may have given the attachment an address, or may
  // write the entry of the attachment's note again. So ConcludeFreed checks last that this agent still owns the node.
  // `may_be_quarantined`: a quarantined block may hold an address of the attachment, so the DEL stays in the journal
  // until the agent can read the block. Errors: kUnavailable: a successor has taken over; kIo.
  [[nodiscard]] Expected<void> ConcludeFreed(const ipam::Attachment& attachment, bool may_be_quarantined);
  // Adds a DEL to the journal, to be written later. Errors: kIo; kUnavailable: the agent has not taken over the node
  // yet, or was replaced.
  [[nodiscard]] Expected<void> WriteDown(const ipam::Attachment& attachment, node::FileSync sync);
  [[nodiscard]] Expected<void> WaitUntilReady(SteadyTime deadline);
  [[nodiscard]] std::unexpected<Error> NotLoaded(ErrorCode code) const BERTH_REQUIRES(mutex_);

  [[nodiscard]] AgentStoreParts Parts() {
    return {.own = own_, .view = view_, .turns = turns_, .api = api_, .directory = directory_};
  }

  // Whether this agent or an earlier agent of this node has loaded its blocks since boot.
  [[nodiscard]] bool HasLoadedSinceBoot() const;
  void LeaveLoadedMark() const;

  void Load(const std::stop_token& stop);
  // Takes over the node and loads its blocks; tries until it succeeds. Returns false if the agent is stopped before.
  [[nodiscard]] bool LoadUntilDone(const std::stop_token& stop);
  // Makes this agent the owner of the node: an earlier agent creates no further block, and adds nothing to its journal.
  [[nodiscard]] Expected<void> TakeOver();
  [[nodiscard]] Expected<void> LoadOnce();
  // Moves the DELs that `berth` has answered without an agent to the journal.
  [[nodiscard]] Expected<void> TakeQueuedDels();
  [[nodiscard]] Expected<void> RetireOnce(SteadyTime end);
  [[nodiscard]] Expected<void> SettleLeftIntents();
  struct ListedBlocks {
    std::vector<ipam::BlockView> blocks = {};
    Quarantine::Blocks quarantined =
        {};  // blocks that the agent cannot parse; FenceOwnBlocks adds those that it cannot write
  };
  [[nodiscard]] Expected<ListedBlocks> ListOwnBlocks(k8sclient::ListOptions options);
  // Waits until pools and the Node are listed. Then fences the node's blocks, and takes over the addresses that an
  // earlier agent handed out.
  [[nodiscard]] Expected<void> FenceOwnBlocks();
  void RunMaintenance(const std::stop_token& stop);
  // Writes the DELs of the journal. Leaves out DELs whose pause is not over (DelsToReplay), and attachments for which a
  // call is under way.
  void ReplayJournal();
  // Returns the DELs of the journal, without those that failed a short time ago, and without those in doubt in a block
  // whose upkeep pauses. DELs that failed alone come last, so that they keep no other DEL waiting.
  [[nodiscard]] std::vector<ipam::Attachment> DelsToReplay();
  void CompactJournal();
  void ClaimAhead();
  void Resync();
  void FindBlocks();
  // Whether the Node's address count has risen above the number of addresses in this agent's blocks. If so, the
  // controller has created a block for this node.
  [[nodiscard]] bool IsNumberAboveBlocks();
  // Called before a call fails with kExhausted: makes the maintenance loop look for blocks that others created for this
  // node, at most once a second. `known`: own_.Generation() before the call looked for an address. Returns whether
  // blocks were added or forgotten since.
  [[nodiscard]] bool FoundBlocks(std::uint64_t known, SteadyTime deadline);
  void ReportOddBlocks() const;
  // Removes cooling entries whose time is over.
  void SweepCooled();
  // Takes an address off standby if its pool may no longer give it to pods. A block has no standby if it is being
  // deleted, if its pool gives no addresses, or if no pod holds an address of the block.
  void RenewStandby();
  // Starts a watch for each new block, and ends the watches of blocks that are gone. A watch shows when another program
  // has written the block.
  void UpdateBlockWatches();
  [[nodiscard]] std::unique_ptr<WatchThread> WatchBlock(const std::string& block);
  // Wakes the maintenance loop.
  void Wake();
  // Call when files of the node's directory were removed: writes the notes of all handed-out addresses there again.
  // Errors: kUnavailable: another agent has taken over, and would not read these notes; kIo.
  [[nodiscard]] Expected<void> MoveNotes();
  // Stops serving, once: another agent has taken over the node, or the node's directory was removed.
  void GiveWay();

  // Records the DEL for an ADD that comes too late (NodeDirectory::MarkDeleted). If the mark cannot be written, for
  // example because /run is full, the DEL goes on, so that pods can end. Logs only the first of consecutive failures.
  void MarkDeleted(const ipam::Attachment& attachment, node::BootNanos started);
  // Returns the name of the network namespace for the entry. `path` is the value of CNI_NETNS. Returns an empty text if
  // this agent does not see the network namespace, because then a missing file would prove nothing later.
  [[nodiscard]] std::string NetnsToRecord(const std::string& path);

  void Tell(const agent_core::Report& report) override;
  static void LogFailed(const cni::Environment& environment, const std::string& network, const Error& error,
                        std::chrono::nanoseconds took);
  void NoteFailedRequest(const Error& error) override;
  [[nodiscard]] bool IsStillOurs() override;

  // Times in entries are times of the API server's clock, so the agent compares them with this clock.
  k8sclient::ServerClock server_clock_;
  k8sclient::DatedApi dated_api_;
  k8sclient::Api& api_ = dated_api_;
  k8sclient::Clock& clock_ = server_clock_;
  const AgentOptions options_;
  std::function<void()> replaced_;
  std::once_flag replaced_once_;
  node::NodeDirectory directory_;
  const node::Folder state_;
  // The node's lock. This agent holds the lock until its last thread has ended; calls of berth-direct wait meanwhile.
  node::HeldFile lock_;
  std::unique_ptr<Journal> journal_;  // set once, before has_taken_over_
  std::atomic<bool> has_taken_over_ = false;
  // When this agent became ready. Set before ready_. From then on no earlier agent answers an ADD.
  std::atomic<node::BootNanos> ready_since_ = 0;
  Metrics metrics_;
  std::atomic<bool> has_lost_files_ = false;  // somebody has removed files of directory_
  std::atomic<bool> told_netns_ = false;
  std::atomic<bool> told_marks_ = false;  // MarkDeleted has logged a failure, and no mark was written since

  // Wake uses mutex_, changed_ and is_woken_. They are declared before the members whose threads call Wake, and so are
  // destroyed after these members.
  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool draining_ BERTH_GUARDED_BY(mutex_) = false;
  bool ready_ BERTH_GUARDED_BY(mutex_) = false;
  bool stopping_ BERTH_GUARDED_BY(mutex_) = false;
  bool is_woken_ BERTH_GUARDED_BY(mutex_) = false;
  std::string load_error_ BERTH_GUARDED_BY(mutex_);  // why the last attempt to load the blocks failed

  OwnBlocks own_;
  Quarantine quarantine_{api_, own_, directory_, clock_};
  ClusterView view_;
  ClaimTurns turns_{clock_};
  WarmBlocks warm_blocks_{Parts(), clock_, metrics_, options_.looks_within};
  AttachmentGate gate_;
  // When ReplayJournal sends a failed DEL again. Used by the loader's thread, and then by the maintenance thread.
  std::map<ipam::Attachment, agent_core::RetryPause> retry_pauses_;
  // The API server did not answer lately: DELs go to the journal without a write.
  std::atomic<bool> is_away_ = false;
  std::atomic<std::size_t> calls_ = 0;
  // The maintenance loop has to list the node's blocks: the answer to a claim in advance was lost, a backup was
  // restored, or a call found no free address.
  std::atomic<bool> wants_resync_ = false;
  std::uint64_t resyncs_ BERTH_GUARDED_BY(mutex_) = 0;
  SteadyTime next_look_ BERTH_GUARDED_BY(mutex_){};  // when FoundBlocks may ask for the next list of blocks
  std::uint64_t resyncs_before_look_ BERTH_GUARDED_BY(mutex_) = 0;

  std::map<std::string, std::unique_ptr<WatchThread>> block_watches_;  // by the block's name
  std::jthread flusher_;
  std::jthread loader_;
  std::jthread maintenance_;
};

}  // namespace berth::agent
