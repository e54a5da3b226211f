// SPDX-License-Identifier: Apache-2.0
// For tests only: ExploredWorld has one block of two addresses, a core that writes the block, the API server's copy,
// and three pods. Moves returns everything that can happen next, so a search can try each move from each world.
//
// A world is a value. Time passes only in a pause of the core, and when a time limit ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
  kGoOn,  // after a pause
  kRemove,
  kTouch,
  kObserve,
  kTimeLimit,  // of all changes that are queued or being sent
  kRestore,
  kTakeOver,         // a successor fences the block; the patch under way never lands
  kLandAndTakeOver,  // the patch under way lands before the successor's fence
};

struct ExploredMove {
  Move move;
  std::size_t which = 0;  // index of a pod, offset of an entry, or index of a late patch
};
[[nodiscard]] std::string Describe(const ExploredMove& move);

class ExploredWorld {
 public:
  explicit ExploredWorld(const ExploredFaults& faults);

  [[nodiscard]] std::vector<ExploredMove> Moves() const;
  void TakeBackup() { backup_ = stored_; }
  // Makes the move. Returns the rule that is broken afterwards, if any.
  [[nodiscard]] std::optional<std::string> Do(const ExploredMove& move);
  // Lets all requests succeed until nothing is left to do, and checks what is written. Returns the broken rule, if any.
  [[nodiscard]] std::optional<std::string> ComeToRest();
  // Equal for worlds that behave in the same way from now on.
  [[nodiscard]] std::string Fingerprint() const;
  // Equal for worlds that ComeToRest treats in the same way.
  [[nodiscard]] std::string FingerprintAtRest() const;

 private:
  struct Pod {
    enum class Is : std::uint8_t { kIdle, kAsking, kHolding, kFailed, kEnding, kEndingAgain, kEnded };
    Is is = Is::kIdle;
    ipam::BlockOffset offset = 0;  // for kHolding, and for is_noted
    bool is_noted = false;         // the address was handed out, and its note exists
    friend bool operator==(const Pod&, const Pod&) = default;
  };
  struct Asked {
    ChangeId id;
    std::size_t pod;
    enum class For : std::uint8_t { kTake, kRelease, kNote } what;
  };
  struct Late {
    std::string decided_on;
    ipam::Block after;
  };

  void AddPodMoves(std::vector<ExploredMove>& moves) const;
  void AddAnswers(std::vector<ExploredMove>& moves) const;
  void AddFaults(std::vector<ExploredMove>& moves) const;

  void DoAsPod(BlockState& state, const ExploredMove& move);
  void DoAsServer(BlockState& state, const ExploredMove& move);
  void DoAsOthers(BlockState& state, const ExploredMove& move);
  void Delete(BlockState& state, std::size_t pod);
  void Begin(BlockState& state);
  void Proceed(BlockState& state);
  void Answer(BlockState& state, const Expected<ipam::BlockView>& answer);
  void Lose(BlockState& state);
  void Observe(BlockState& state);
  void PassTimeLimit(BlockState& state);
  // A successor starts, which knows only the API server's copy and the node's notes.
  void TakeOver();
  // Makes one step without faults. Returns false if nothing is left to do.
  [[nodiscard]] bool Rest(BlockState& state);
  [[nodiscard]] std::optional<std::string> WhatIsNotWritten() const;

  void Store(ipam::Block block);
  void Take(const News& news);
  void TakeOutcome(const Outcome& outcome);
  [[nodiscard]] std::optional<std::string> BrokenRule() const;
  [[nodiscard]] bool MayLand() const;
  [[nodiscard]] bool IsStoredWrong() const;
  [[nodiscard]] BlockState& Shared() const;

  class Printer;
  void PrintState(Printer& out) const;
  void PrintRound(const Round& round, Printer& out) const;
  void PrintPending(const PendingChange& one, Printer& out) const;

  Core core_;         // all copies of the world share its pointer to the state
  BlockState state_;  // the state while this world is not in use; Do swaps it into core_
  ipam::Block stored_;
  ipam::Block backup_;
  std::uint64_t last_version_ = 1;
  std::optional<Step> asked_;
  std::vector<Late> late_;
  std::array<Pod, 3> pods_{};
  std::vector<Asked> ids_;
  ExploredFaults left_;
  Now now_;
  bool is_quiet_ = false;  // the last upkeep had nothing to write
  std::string broken_;     // the rule that the core's news broke
};

}  // namespace berth::agent_core
