// SPDX-License-Identifier: Apache-2.0
// Core makes every decision of the agent about its blocks. Core is a state machine without threads, files, clocks and
// requests; the driver (`agent/own_blocks.h`) supplies these.
//
// For each block the core has at most one request under way. Changes that come meanwhile wait, and then share one patch
// (group commit). The driver asks Next for the next request, sends it, and passes the API server's answer to Answer:
//
//   core.Submit(state, change, ...);
//   state.is_sending = true;
//   core.Begin(state, deadline);                              // moves the queued changes into a round
//   while (step = core.Next(state, now, news), not Done)      // Read or Write
//     core.Answer(state, <what the API server said>, ...);
//   core.End(state);
//
// After each call, News holds what the driver has to tell callers, metrics and logs.
//
// Rules:
//   - A write is a merge patch with the resourceVersion on which the core decided. After a conflict the core decides
//     again.
//   - If the answer to a write is lost, the write is in doubt until a later write changes the object, or until the core
//     sees a newer version than the one that the write names. Meanwhile the attachments of the write are in doubt, and
//     their DELs ask for a fence: a patch that always changes the block, because it writes a new value to the block's
//     field `agent`. After the fence, the write in doubt can no longer land.
//   - The core ignores a version that is not newer than the known version, even if it shows another block of the same
//     name. Exception: if a write finds that the API server's data has become older (a backup was restored), the core
//     accepts the older version. The next patch then restores the known state exactly: it adds lost entries, and
//     removes entries that were freed since the backup. The core hands out no address before this patch has succeeded.
//   - If a block's field `agent` names another agent, that agent may have replaced this agent. If the node's files
//     confirm this, the driver stops the core. Otherwise the core writes the block once more before it hands out an
//     address of the block. Addresses that an agent of another machine has on standby stay set aside for 60 s. If the
//     other agent writes the block again within 60 s, changes fail with an error that names both agents.
//   - The core hands out an address on standby only if MayGive contains it.
// observe.h finds what others did to a block. plan_patch.h decides what a patch carries.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent_core/block_state.h"
#include "agent_core/observe.h"
#include "agent_core/plan_patch.h"

namespace berth::agent_core {

struct CoreOptions {
  Self self;
  // How many addresses the agent keeps on standby in each block that has held entries. 0: the agent answers an ADD only
  // after its entry is written.
  std::size_t standby = 0;
};

// How long a deferred change (no caller waits for it) waits for other changes: longer than the gaps between the calls
// of a burst, and too short for a person to notice.
inline constexpr std::chrono::milliseconds kLinger{20};
// If a patch takes longer than kLinger, the API server is busy. A deferred change then waits as long as a patch takes,
// at most this long, so that further changes share its patch.
inline constexpr std::chrono::milliseconds kLingerMax{250};
inline constexpr std::chrono::milliseconds kSendNow{0};
// The thread that sends a batch waits at most this long for further callers. If a caller's deadline is more than this
// later than the batch's deadline, the caller's change waits for the next batch.
inline constexpr std::chrono::milliseconds kGatherMax{50};
// How often the agent checks that the API server keeps `standby`.
inline constexpr std::chrono::seconds kProofEvery{30};

// The result of a change.
struct Outcome {
  ChangeId id = 0;
  Expected<ipam::BlockView> result;
};

// An event for metrics and logs.
struct Report {
  enum class Kind : std::uint8_t {
    kConflict,
    kBatch,  // `count` changes are sent with one patch
    kInDoubt,
    // A pod has the address, but its entry cannot be written. kHandedOutRefused: the API server refuses the entry; the
    // agent tries again. kHandedOutLost: the block is gone, or another writer has written another entry; the agent
    // gives up.
    kHandedOutRefused,
    kHandedOutLost,
    kStandbyNotKept,  // the API server drops `standby`, because its CRD is older than this agent
    kVanished,        // another writer removed or replaced a held entry without freeing it; the agent writes it again
    kStillInUse,  // the controller freed the address of a container that still exists; the agent writes the entry again
    kFreedRightly,  // the controller freed the address of a container that is gone
    kWentBack,      // the API server's data is older than its earlier answers: it was restored from a backup
    kMetAnother,    // another instance wrote the block, although this agent still serves the node
  };
  Kind kind;
  std::string block;
  std::string text = {};  // an entry; for kMetAnother: the other agent
  std::size_t count = 0;
  std::optional<Error> error = {};
};

struct News {
  // Ids of handed-out addresses whose entry is written, given back or lost. The driver handles `settled` before
  // `outcomes`: it removes the note of an address before it answers the call that gave the address back.
  std::vector<ChangeId> settled;
  std::vector<Report> reports;
  std::vector<Outcome> outcomes;
};

// Says whether the core may give an address on standby, and if not, why.
enum class Trust : std::uint8_t {
  kGives,
  // The last write failed or is in doubt, or the next write has to be a fence: each ADD waits until a write has
  // succeeded.
  kMustWrite,
  kLapsed,  // no proof within 60 s that the addresses still belong to this node
  kOff,  // no standby is kept, the block is being deleted or contested, an entry is refused, or addresses are set aside
};

// The next step of the driver, for a block that is being sent.
struct Done {};
struct Read {
  SteadyTime deadline;
};
struct Write {
  ipam::BlockView before;
  ipam::Block after;
  bool asks_for_all = false;  // the answer has to be the whole block, to show whether the API server keeps `standby`
  SteadyTime deadline;
};
using Step = std::variant<Done, Read, Write>;

class Core {
 public:
  using StatePointer = std::shared_ptr<BlockState>;

  explicit Core(CoreOptions options) : options_(std::move(options)) {}

  [[nodiscard]] const std::map<std::string, StatePointer>& blocks() const { return blocks_; }
  // Returns nullptr if the core does not know the block.
  [[nodiscard]] StatePointer Find(const std::string& name) const;
  // Grows each time a block is added or forgotten.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  // Adds a block that this agent has just written. `before` is the version that the write replaced. If the core already
  // knows the block, it adopts `before`, and then `written`.
  void Insert(const ipam::BlockView& written, const ipam::BlockView& before, const Now& now, News& news);

  [[nodiscard]] ChangeId Submit(BlockState& state, const ipam::Change& change, SteadyTime deadline);
  // Submits a deferred change: no caller waits, and the change is due after `linger`.
  ChangeId SubmitDeferred(BlockState& state, const ipam::Change& change, std::chrono::milliseconds linger,
                          const Now& now);
  // Removes a change from the queue. Returns false if the change is being sent or already has an outcome.
  static bool Withdraw(BlockState& state, ChangeId id);
  // How long a deferred change of the block waits: as long as a patch takes, from kLinger to kLingerMax.
  [[nodiscard]] static std::chrono::milliseconds LingerOf(const BlockState& state);

  [[nodiscard]] Trust TrustIn(const BlockState& state, const Now& now) const;
  // The offsets that HandOut may give now.
  [[nodiscard]] ipam::OffsetSet MayGive(const BlockState& state, const Now& now) const;
  struct Given {
    ChangeId id = 0;
    ipam::BlockView block;  // the block as Shown returns it from now on
    // When the deferred change that HandOut added is due. nullopt: a queued change writes the entry in time.
    std::optional<SteadyTime> due = {};
  };
  // Gives the change's attachment an address on standby, and makes sure that a deferred change writes the entry.
  // Returns nullopt if no address may be given. Requires: the attachment is not in doubt (IsInDoubt), because an
  // earlier patch might give the attachment another address.
  [[nodiscard]] std::optional<Given> HandOut(BlockState& state, const ipam::Change& change, const Now& now);
  // Takes back the address that HandOut gave, because its note cannot be stored. Requires: Begin and Next were not
  // called since HandOut returned, so no patch carries the address.
  static void UndoHandOut(BlockState& state, ChangeId id) {
    const CheckAtEnd check(state);
    std::erase_if(state.handed_out, [id](const auto& one) { return one.second.id == id; });
  }
  // Takes over an address that an earlier agent handed out, as if this agent had handed it out. Returns the id of the
  // address; if the attachment's address is already taken over, returns its known id. Returns 0 if the entry is
  // written, or if the block with `block_uid` is gone and the address is lost.
  [[nodiscard]] ChangeId Resume(const std::string& block_uid, ipam::BlockOffset offset, HandedOut handed_out,
                                const std::string& block, News& news);
  // Submits a deferred change, due at once, for each idle block that has handed-out addresses or entries to write or
  // needs a fence. Leaves out contested blocks, and blocks whose upkeep_pause is on. Returns the ids of the changes.
  // Also frees addresses that were set aside for foreign agents that were silent for 60 s.
  [[nodiscard]] std::vector<ChangeId> WriteWhatIsLeft(const Now& now);
  // Ends all queued deferred changes without sending them, because the process ends.
  [[nodiscard]] News EndDeferred();
  // Whether a deferred change is queued or being sent.
  [[nodiscard]] bool HasDeferred() const { return deferred_count_ > 0; }
  // When the block's first deferred change is due; SteadyTime::max() if the block has none.
  [[nodiscard]] static SteadyTime DueOf(const BlockState& state);
  // Whether the block has to be written although no change waits: it has entries to restore, or needs a fence.
  [[nodiscard]] bool HasToWrite(const BlockState& state) const;

  // The driver calls Begin, Next, Answer and End to send a batch. Requires: is_sending.
  void Begin(BlockState& state, SteadyTime deadline);
  [[nodiscard]] Step Next(BlockState& state, const Now& now, News& news);
  // Takes the API server's answer to the Read or Write that Next returned at `asked`.
  void Answer(BlockState& state, const Expected<ipam::BlockView>& answer, const Now& asked, const Now& now, News& news);
  // Ends the batch. Returns the newest version that KeepUntilEnd stored meanwhile, or nullptr.
  [[nodiscard]] static ipam::BlockView End(BlockState& state);

  // Adopt takes in a version of the block, no matter which request showed it. Returns false if `seen` is a later block
  // of the same name: the known block is gone, and the core has forgotten it. While a batch is being sent, the core
  // adopts only the batch's own answers; the driver passes any other version to KeepUntilEnd, and adopts it after End.
  bool Adopt(BlockState& state, const ipam::BlockView& seen, const Now& now, News& news);
  static void KeepUntilEnd(BlockState& state, const ipam::BlockView& seen);
  void Forget(BlockState& state, News& news);
  // Call when the API server shows an older version of a block than before: the block then needs a fence. A fence that
  // is under way does not count, because the restored data may lack it.
  static void Distrust(BlockState& state) {
    const CheckAtEnd check(state);
    state.must_fence = true;
    if (!state.rounds.empty()) state.rounds.front().fences = false;
  }
  // Call when the attachment's write in doubt is settled.
  static void CloseDoubt(BlockState& state, const ipam::Attachment& attachment) {
    const CheckAtEnd check(state);
    state.in_doubt.erase(attachment);
  }

  // A proof is an answer of the API server which shows that the server stores `standby`, and that the addresses still
  // belong to this node. IsProofDue: the last proof is 30 s (kProofEvery) old, or there is none. Always false
  // once an answer has shown that the API server drops `standby`.
  [[nodiscard]] bool IsProofDue(const Now& now) const;
  // Records that a read, which was sent at `asked`, showed the block unchanged.
  static void Prove(BlockState& state, const Now& asked) {
    const CheckAtEnd check(state);
    state.proved = std::max(state.proved, asked.since_boot);
  }
  // Records an answer that was requested at `asked` (time since boot). `is_kept`: the answer shows that the API server
  // keeps `standby`. After a lapse (60 s without a proof) the answer proves nothing about other blocks, because the
  // controller may have given them to other nodes: each block then needs a proof of its own.
  void TakeProof(std::chrono::nanoseconds asked, bool is_kept, const Now& now, News& news);

  [[nodiscard]] std::string NextFence() { return options_.self.instance + "." + std::to_string(++fences_); }

  // From now on every change fails, because the process ends.
  void Stop() { stopped_ = true; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] static std::unexpected<Error> Ending();

 private:
  [[nodiscard]] bool KeepsStandby() const { return options_.standby > 0 && !drops_standby_; }
  [[nodiscard]] bool IsProofLate(const Now& now) const;
  [[nodiscard]] bool IsKnown(const BlockState& state) const;
  [[nodiscard]] std::optional<Error> Contested(const BlockState& state) const;

  // Returns the next request of a round. nullopt: every change of the round has an outcome.
  [[nodiscard]] std::optional<Step> NextOf(BlockState& state, Round& round, const Now& now, News& news);
  void EndRound(BlockState& state);
  void AfterSettlingRead(BlockState& state, Round& round, const Expected<ipam::BlockView>& read, const Now& now,
                         News& news);
  void AfterWrite(BlockState& state, Round& round, const Expected<ipam::BlockView>& written, const Now& now,
                  News& news);
  void AfterFailure(BlockState& state, Round& round, const Error& error, const Now& now, News& news);
  void AfterConflictRead(BlockState& state, Round& round, const Expected<ipam::BlockView>& read, const Now& now,
                         News& news);
  void AfterRefusal(BlockState& state, Round& round, const Error& error, const Now& now, News& news);
  // Like Adopt, for a conflict without a newer version: the API server was restored from a backup. Returns the error
  // for the callers.
  [[nodiscard]] Error GoBack(BlockState& state, const ipam::BlockView& seen, const Now& now, News& news);
  // Makes `seen` the known version, and notes which entries to restore. Requires: `seen` is a version of the state's
  // block.
  void See(BlockState& state, const ipam::BlockView& seen, const Now& now, News& news);
  // Call when the round's patch has landed, or would change nothing: removes the addresses that it carried from
  // `handed_out`, and reports them as settled.
  void SettleHandedOut(BlockState& state, const Round& round, News& news);
  // Returns `error`. If an earlier patch of the round may have landed or may land later, changes the code to
  // kUnknownOutcome: a later failure says nothing about the earlier patch.
  [[nodiscard]] Error AsUnknownIfInDoubt(const BlockState& state, const Round& round, Error error) const;
  void FinishAll(const BlockState& state, Round& round, const Expected<ipam::BlockView>& result, News& news);
  void Finish(const PendingChange& change, Expected<ipam::BlockView> result, News& news);

  CoreOptions options_;
  std::map<std::string, StatePointer> blocks_;
  std::uint64_t generation_ = 0;
  std::uint64_t fences_ = 0;  // counter in the field `agent`
  ChangeId last_id_ = 0;
  std::size_t deferred_count_ = 0;
  bool stopped_ = false;
  bool drops_standby_ = false;  // an answer has shown that the API server drops `standby`
  // Time since boot at which the next proof is due.
  std::chrono::nanoseconds proof_due_ = std::chrono::nanoseconds::min();
  // Time since boot at which the request was sent whose answer ended the last lapse.
  std::chrono::nanoseconds lapse_ended_ = std::chrono::nanoseconds::min();
};

}  // namespace berth::agent_core
