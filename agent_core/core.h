// SPDX-License-Identifier: Apache-2.0
// Core: every decision that the agent makes about its blocks, as a state machine without threads, files, clocks and
// requests. `agent/own_blocks.h` drives it.
//
// For each block the core has at most one request under way. Changes that come meanwhile wait, and then go out together
// in one patch (group commit). Whoever drives the core asks Next what to do, does it, and tells the core what came of
// it:
//
//   core.Submit(state, change, ...);
//   state.is_sending = true;
//   core.Begin(state, deadline);                              // what waits becomes a round
//   while (step = core.Next(state, now, news), not Done)      // Pause, Read or Write
//     core.Answer(state, <what the API server said>, ...);
//   core.End(state);
//
// What callers and people are to be told comes out as News, after each call.
//
// Rules that hold here:
//   - A write is a merge patch with the resourceVersion it was decided on. After a conflict all is decided again.
//   - A write of which the answer was lost is settled by a later write that changes the object, or by a version that is
//     newer than the one it was decided on. Until then its attachments are in doubt, and DEL fences.
//   - What is older than what is known is not believed, whatever block of that name it shows. Only where a write finds
//     that the API server itself has gone back (a backup was restored) is it the truth, and what was known since is put
//     back to the letter, what was given back since included, before anything is handed out.
//   - Another instance in `agent` may mean that this agent was replaced: the node's files say so, and the driver stops
//     the core. Else the core writes each block once more before it hands out anything of it. What an agent of another
//     machine has on standby is left there for a minute; if that one comes back meanwhile, changes fail and name both.
//   - An address on standby is handed out only if MayGive says so.
// What others did to a block: observe.h. What a patch carries: plan_patch.h.
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
  // So many addresses of a block that is in use are kept on standby; 0: every change is written first.
  std::size_t standby = 0;
};

// How long what nobody waits for may wait for others: as long as a burst's calls come after one another, and too short
// for a person to see.
inline constexpr std::chrono::milliseconds kLinger{20};
// Where a patch takes longer than that, the API server has much to do: what comes while one would be under way shares
// it.
inline constexpr std::chrono::milliseconds kLingerMax{250};
inline constexpr std::chrono::milliseconds kSendNow{0};
// A caller with so much more time than its batch sends a batch of its own.
inline constexpr std::chrono::milliseconds kGatherMax{50};
// From one proof that the API server keeps `standby` to the next.
inline constexpr std::chrono::seconds kProofEvery{30};

// What became of a change. Of an address that was handed out: that it is written, or was given back.
struct Outcome {
  ChangeId id = 0;
  Expected<ipam::BlockView> result;
};

// What people are told, by metrics and logs.
struct Report {
  enum class Kind : std::uint8_t {
    kConflict,
    kBatch,  // `count` changes are sent
    kInDoubt,
    // An address was handed out and cannot be written: the API server refuses that (it is tried again), or the block is
    // gone or somebody else wrote another entry there (it is not).
    kHandedOutRefused,
    kHandedOutLost,
    kStandbyNotKept,  // the API server drops `standby`: its CRD is older than this agent
    kVanished,        // somebody removed an entry without a mark; it will be written again
    kStillInUse,      // the controller freed the address of a container that still exists; it will be written again
    kFreedRightly,    // the controller freed the address of a container that is gone
    kWentBack,        // the API server's data is older than what it answered before: it was restored from a backup
    kMetAnother,      // another instance wrote the block, and this one is the node's agent all the same
  };
  Kind kind;
  std::string block;
  std::string text = {};  // an entry; of kMetAnother: the other agent
  std::size_t count = 0;
  std::optional<Error> error = {};
};

struct News {
  // Addresses that were handed out, and are written or were given back. To be told before the outcomes: the note of an
  // address goes before the call is answered that gave the address back.
  std::vector<ChangeId> settled;
  std::vector<Report> reports;
  std::vector<Outcome> outcomes;
};

// Why an address on standby may be given, or not.
enum class Trust : std::uint8_t {
  kGives,
  kMustWrite,  // the last write failed, is in doubt, or has to be fenced: nobody is answered before one succeeds
  kLapsed,     // for a minute nothing has shown that the addresses are still this node's
  kOff,        // no standby is kept, or the block goes, or another machine writes it, or an entry is refused
};

// What to do next for a block that is being sent.
struct Done {};
struct Pause {
  SteadyTime until;
};
struct Read {
  SteadyTime deadline;
};
struct Write {
  ipam::BlockView before;
  ipam::Block after;
  bool asks_for_all = false;  // the answer is to be the whole block, to see what became of `standby`
  SteadyTime deadline;
};
using Step = std::variant<Done, Pause, Read, Write>;

class Core {
 public:
  using StatePointer = std::shared_ptr<BlockState>;

  explicit Core(CoreOptions options) : options_(std::move(options)) {}

  // The blocks.
  [[nodiscard]] const std::map<std::string, StatePointer>& blocks() const { return blocks_; }
  // nullptr: not known.
  [[nodiscard]] StatePointer Find(const std::string& name) const;
  // Grows whenever a block comes or goes.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  // Takes in a block that this agent has written just now. `before`: the version that it was written over. If the block
  // is known, this is news of it.
  void Insert(const ipam::BlockView& written, const ipam::BlockView& before, const Now& now, News& news);

  // Changes.
  [[nodiscard]] ChangeId Submit(BlockState& state, const ipam::Change& change, SteadyTime deadline);
  // No caller waits: the change is due after `linger`.
  ChangeId SubmitLate(BlockState& state, const ipam::Change& change, std::chrono::milliseconds linger,
                      SteadyTime deadline, const Now& now);
  // False: it is being sent, or has an outcome.
  static bool Withdraw(BlockState& state, ChangeId id);
  // How long a change of the block may linger.
  [[nodiscard]] static std::chrono::milliseconds LingerOf(const BlockState& state);

  // Standby.
  [[nodiscard]] Trust TrustIn(const BlockState& state, const Now& now) const;
  // What may be handed out of a block now.
  [[nodiscard]] ipam::OffsetSet MayGive(const BlockState& state, const Now& now) const;
  struct Given {
    ChangeId id = 0;
    ipam::BlockView block;  // as it is shown from now on
    // When the change that was added for it is due. Nothing: one that waits already will do.
    std::optional<SteadyTime> due = {};
  };
  // Takes an address that is on standby by the change, and has it written. Nothing: none may be given. Requires: the
  // change's attachment is not in doubt (IsInDoubt): an earlier patch may give it another address.
  [[nodiscard]] std::optional<Given> HandOut(BlockState& state, const ipam::Change& change, SteadyTime deadline,
                                             const Now& now);
  // What an earlier agent handed out of a block that this one has just taken in: as if this one had. Again, if it is
  // handed out still. 0: it is written; or the block is another one by now, and the address is lost.
  [[nodiscard]] ChangeId Resume(const std::string& block_uid, ipam::BlockOffset offset, HandedOut handed_out,
                                const std::string& block, News& news);
  // Has what could not be written yet sent again, one change for each block that has any. Returns their ids.
  [[nodiscard]] std::vector<ChangeId> WriteWhatIsLeft(SteadyTime deadline, const Now& now);
  // What no caller waits for of all blocks ends without being sent: the process ends.
  [[nodiscard]] News EndLate();
  // Whether there is such a change, also one that is being sent.
  [[nodiscard]] bool HasLate() const { return late_count_ > 0; }
  // When the first of a block is due; the end of time: there is none.
  [[nodiscard]] static SteadyTime DueOf(const BlockState& state);
  // Whether the block is due to be written without a change of its own.
  [[nodiscard]] bool HasToWrite(const BlockState& state) const;

  // Sending. Requires: is_sending.
  void Begin(BlockState& state, SteadyTime deadline);
  [[nodiscard]] Step Next(BlockState& state, const Now& now, News& news);
  // What the API server said to the Read or Write that Next returned at `asked`.
  void Answer(BlockState& state, const Expected<ipam::BlockView>& answer, const Now& asked, const Now& now, News& news);
  // The batch is over. Returns the newest version that came meanwhile, or nullptr.
  [[nodiscard]] static ipam::BlockView End(BlockState& state);

  // What others did. Adopt takes in a version of a block, from wherever; false: it is a later block of that name, so
  // this one is gone and forgotten. While a batch is being sent, only its own answers are taken in, and what else comes
  // is kept for End.
  bool Adopt(BlockState& state, const ipam::BlockView& seen, const Now& now, News& news);
  static void Keep(BlockState& state, const ipam::BlockView& seen);
  void Forget(BlockState& state, News& news);
  // The API server showed an older version than it did before: the block has to be fenced.
  static void Distrust(BlockState& state) { state.must_fence = true; }
  // Somebody has found out what became of the attachment's write.
  static void CloseDoubt(BlockState& state, const ipam::Attachment& attachment) { state.in_doubt.erase(attachment); }

  // Proofs that the API server keeps `standby`, and that the node's addresses are its own still.
  [[nodiscard]] bool IsProofDue(const Now& now) const;
  // The block was read unchanged, by a request of that time.
  static void Prove(BlockState& state, const Now& asked) { state.proved = std::max(state.proved, asked.since_boot); }
  // Of what was asked for at that time since boot. After a lapse it says nothing of other blocks, which may have been
  // given to other nodes meanwhile: each is to be proved by itself.
  void TakeProof(std::chrono::nanoseconds asked, bool is_kept, const Now& now, News& news);

  [[nodiscard]] std::string NextFence() { return options_.self.instance + "." + std::to_string(++fences_); }

  // From now on every change fails: the process ends.
  void Stop() { stopped_ = true; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] static std::unexpected<Error> Ending();

 private:
  // Ends the process if a decision broke what must hold.
  static void Check(const BlockState& state);
  [[nodiscard]] bool MayStandBy() const { return options_.standby > 0 && !drops_standby_; }
  [[nodiscard]] bool IsProofLate(const Now& now) const;
  [[nodiscard]] bool IsKnown(const BlockState& state) const;
  [[nodiscard]] std::optional<Error> Contested(const BlockState& state) const;

  // The next request of a round, or nothing: the round is over, or Next is to look again.
  [[nodiscard]] std::optional<Step> NextOf(BlockState& state, Round& round, const Now& now, News& news);
  void EndRound(BlockState& state);
  void AfterSettlingRead(BlockState& state, Round& round, const Expected<ipam::BlockView>& read, const Now& now,
                         News& news);
  void AfterWrite(BlockState& state, Round& round, const Expected<ipam::BlockView>& written, const Now& now,
                  News& news);
  void AfterFailure(BlockState& state, Round& round, const Error& error, const Now& now, News& news);
  void AfterConflictRead(BlockState& state, Round& round, const Expected<ipam::BlockView>& read, const Now& now,
                         News& news);
  void AfterRefusal(BlockState& state, Round& round, const Error& error, News& news);
  // The version that a write met, which nothing newer explains.
  [[nodiscard]] Error GoBack(BlockState& state, const ipam::BlockView& seen, const Now& now, News& news);
  // Takes what was seen for the truth, but for what is to be put back. Requires: it is the state's block.
  void See(BlockState& state, const ipam::BlockView& seen, const Now& now, News& news);
  // What the round carried is in, or was given back.
  void SettleHandedOut(BlockState& state, const Round& round, News& news);
  // A failure says nothing about a patch before it, which may be in or land later: then the outcome is not known.
  [[nodiscard]] Error OfRound(const BlockState& state, const Round& round, Error error) const;
  void FinishAll(const BlockState& state, Round& round, const Expected<ipam::BlockView>& result, News& news);
  void Finish(const Waiting& change, Expected<ipam::BlockView> result, News& news);

  CoreOptions options_;
  std::map<std::string, StatePointer> blocks_;
  std::uint64_t generation_ = 0;
  std::uint64_t fences_ = 0;  // counter of the `agent` field
  ChangeId last_id_ = 0;
  std::size_t late_count_ = 0;
  bool stopped_ = false;
  bool drops_standby_ = false;                                              // as the API server has shown
  std::chrono::nanoseconds proof_due_ = std::chrono::nanoseconds::min();    // since boot
  std::chrono::nanoseconds lapse_ended_ = std::chrono::nanoseconds::min();  // since boot
};

}  // namespace berth::agent_core
