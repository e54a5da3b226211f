// SPDX-License-Identifier: Apache-2.0
// For tests only: ExploredWorld has a core, its blocks, the API server's copies of the blocks, and pods. Moves returns
// everything that can happen next, so a search can try each move from each world, and a random walk can choose one.
//
// A world is a value. Time passes only in a pause of the core, and when a time limit ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"
#include "base/error.h"

namespace berth::agent_core {

// How often each fault may happen in one history.
struct ExploredFaults {
  int losses = 2;      // lost answers to patches
  int refusals = 1;    // patches that the API server refuses
  int outages = 1;     // requests that fail because the API server is unavailable
  int removals = 1;    // entries that a person removes
  int touches = 1;     // writes of others that change only the version
  int limits = 1;      // time limits that end
  int successors = 1;  // agents that take over
  int restores = 0;    // restores of the backup, which shows the block at the start of the search
};

struct ExploredShape {
  std::size_t blocks = 1;
  int block_length = 31;  // prefix length: a block of two addresses
  std::size_t pods = 3;
  std::size_t standby = 1;
};

enum class Move : std::uint8_t {
  kSubmit,   // an ADD that waits for its write
  kHandOut,  // an ADD that gets an address on standby
  kDelete,   // a DEL, answered before it is written unless a write of the pod is in doubt
  kBegin,
  kUpkeep,  // the agent sends again what it could not write
  kWritten,
  kConflict,
  kRefused,
  kLostAndLanded,
  kLostAndDropped,
  kLostAndLate,  // the patch may land later
  kLands,
  kUnavailable,
  kRead,
  kRemove,
  kTouch,
  kObserve,
  kTimeLimit,        // of all changes that are queued or being sent
  kRestore,          // of all blocks
  kTakeOver,         // a successor fences the block; the patch under way never lands
  kLandAndTakeOver,  // the patch under way lands before the successor's fence
};

struct ExploredMove {
  Move move;
  std::uint8_t which = 0;  // index of a pod, offset of an entry, or index of a late patch
  std::uint8_t block = 0;  // index of the block
};
[[nodiscard]] std::string Describe(const ExploredMove& move);

// Describe of all moves, one per line.
[[nodiscard]] std::string Describe(const std::vector<ExploredMove>& moves);

// A core whose copies have states of their own.
class CopiedCore {
 public:
  explicit CopiedCore(CoreOptions options) : core_(std::move(options)) {}
  CopiedCore(const CopiedCore& other) : core_(other.core_) { CopyStates(); }
  // Writes into this copy's own states, because copies are most of what a search does.
  CopiedCore& operator=(const CopiedCore& other);
  ~CopiedCore() = default;

  // Calls after blocks were inserted. Then State(0) is the state of the first block by name.
  void FindStates();
  [[nodiscard]] BlockState& State(std::size_t block) const { return *states_[block]; }
  Core* operator->() { return &core_; }
  const Core* operator->() const { return &core_; }

 private:
  void CopyStates();

  Core core_;
  std::vector<Core::StatePointer> states_;  // the pointers of core_.blocks()
};

// While this object exists, a failed check (BERTH_CHECK) of the core first prints what `tell` returns.
class TellsAtAbort {
 public:
  explicit TellsAtAbort(std::function<std::string()> tell);
  TellsAtAbort(const TellsAtAbort&) = delete;
  TellsAtAbort& operator=(const TellsAtAbort&) = delete;
  ~TellsAtAbort();
};

class ExploredWorld {
 public:
  explicit ExploredWorld(const ExploredFaults& faults, const ExploredShape& shape = {});

  [[nodiscard]] std::vector<ExploredMove> Moves() const;
  void TakeBackup();
  // Makes the move. Returns the rule that is broken afterwards, if any.
  [[nodiscard]] std::optional<std::string> Do(const ExploredMove& move);
  // Lets all requests succeed until nothing is left to do, and checks what is written. Returns the broken rule, if any.
  // `is_known_to_rest`, if given, is called before each step with the fingerprint at rest: true ends the search for
  // rest.
  [[nodiscard]] std::optional<std::string> ComeToRest(
      const std::function<bool(std::uint64_t)>& is_known_to_rest = nullptr);

  struct Fingerprint {
    std::uint64_t whole;    // equal for worlds that behave in the same way from now on
    std::uint64_t at_rest;  // equal for worlds that ComeToRest treats in the same way
  };
  [[nodiscard]] Fingerprint TakeFingerprint() const;

 private:
  struct Pod {
    enum class Is : std::uint8_t { kIdle, kAsking, kHolding, kFailed, kEnding, kEndingAgain, kEnded };
    Is is = Is::kIdle;
    std::uint8_t block = 0;        // of all calls of the pod
    bool is_noted = false;         // the address was handed out, and its note exists
    ipam::BlockOffset offset = 0;  // for kHolding, and for is_noted
    friend bool operator==(const Pod&, const Pod&) = default;
  };
  struct Asked {
    ChangeId id;
    std::size_t pod;
    enum class For : std::uint8_t { kTake, kRelease, kNote } what;
  };
  // The API server's copy of a block, and the core's request about the block.
  struct AtServer {
    ipam::BlockView stored;
    ipam::BlockView backup;
    std::uint64_t newest = 0;  // the highest version that was ever stored
    // The core's last step; the request itself is in the state's first round.
    enum class Awaits : std::uint8_t { kNothing, kRead, kWrite } awaits = Awaits::kNothing;
    std::vector<ipam::BlockView> late;  // patches that may land later, with the versions that they name

    [[nodiscard]] bool is_restored(const BlockState& state) const {
      return VersionOf(*stored) < VersionOf(*state.view);
    }
  };
  using Awaits = AtServer::Awaits;

  void AddPodMoves(std::vector<ExploredMove>& moves) const;
  void AddStart(std::size_t pod, std::size_t block, std::vector<ExploredMove>& moves) const;
  void AddAnswers(std::size_t block, std::vector<ExploredMove>& moves) const;
  void AddOthers(std::size_t block, std::vector<ExploredMove>& moves) const;
  void AddFaultsOfAll(std::vector<ExploredMove>& moves) const;

  void DoAsPod(const ExploredMove& move);
  void DoAsServer(const ExploredMove& move);
  void DoAsOthers(const ExploredMove& move);
  void DoUpkeep();
  void Delete(std::size_t pod);
  void Begin(std::size_t block);
  void Proceed(std::size_t block);
  void Answer(std::size_t block, const Expected<ipam::BlockView>& answer);
  void Lose(std::size_t block);
  void Observe(std::size_t block);
  void PassTimeLimit();
  // A successor starts, which knows only the API server's copies and the node's notes.
  void TakeOver();
  void FenceAsSuccessor(std::size_t block, News& news);
  // Makes one step without faults. Returns false if nothing is left to do.
  [[nodiscard]] bool Rest();
  [[nodiscard]] bool RestOf(std::size_t block);
  [[nodiscard]] std::optional<std::string> WhatIsNotWritten() const;

  void Store(std::size_t block, ipam::Block after);
  void Take(const News& news);
  void TakeOutcome(const Outcome& outcome);
  [[nodiscard]] std::optional<std::string> BrokenRule() const;
  [[nodiscard]] bool MayLand(std::size_t block) const;
  [[nodiscard]] bool IsStoredWrong() const;
  [[nodiscard]] bool IsSending() const;
  [[nodiscard]] BlockState& State(std::size_t block) const { return core_.State(block); }
  // The patch under way. Requires: the core awaits the answer to a write.
  [[nodiscard]] const Round& Patch(std::size_t block) const { return State(block).rounds.front(); }

  class Hasher;
  void HashBlock(std::size_t block, Hasher& out) const;
  void HashState(const BlockState& state, Hasher& out) const;
  void HashRound(const Round& round, Hasher& out) const;
  void HashPending(const PendingChange& one, Hasher& out) const;

  ExploredShape shape_;
  ipam::PoolView pool_;
  CopiedCore core_;
  std::vector<AtServer> server_;  // by block
  std::uint64_t last_version_ = 1;
  int agents_ = 0;  // how many agents have started
  std::vector<Pod> pods_;
  std::vector<Asked> ids_;
  ExploredFaults left_;
  Now now_;
  bool is_quiet_ = false;  // the last upkeep had nothing to write
  std::string broken_;     // the rule that the core's news broke
};

// The attachment of the pod with this index.
[[nodiscard]] const ipam::Attachment& ExploredAttachment(std::size_t pod);

}  // namespace berth::agent_core
