// SPDX-License-Identifier: Apache-2.0
// For tests only: ExploredWorld: one block of two addresses, a core that writes it, the API server's copy, and three
// pods. All that can happen next is a list of moves, so that a search can try each of them from each world.
//
// A world is a value. Time stands still, but for what a pause of the core takes, and for a time limit that passes.
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

// What goes wrong at most so often in one history.
struct ExploredFaults {
  int losses = 2;      // answers to patches
  int refusals = 1;    // of patches
  int outages = 1;     // of any request
  int removals = 1;    // of entries, by a person
  int touches = 1;     // writes of others that change nothing
  int limits = 1;      // time limits that pass
  int successors = 1;  // agents that take over
  int restores = 0;    // of a backup, which is as the world was when the search began
};

enum class Move : std::uint8_t {
  kSubmit,   // an ADD that is written first
  kHandOut,  // an ADD on standby
  kDelete,   // a DEL, answered before it is written unless the pod's ADD is in doubt
  kBegin,
  kUpkeep,  // what could not be written yet is sent again
  kWritten,
  kConflict,
  kRefused,
  kLostAndLanded,
  kLostAndDropped,
  kLostAndLate,  // it may land later
  kLands,
  kUnavailable,
  kRead,
  kGoOn,  // after a pause
  kRemove,
  kTouch,
  kObserve,
  kTimeLimit,  // of all that is sent or waits
  kRestore,
  kTakeOver,         // a successor fences; what is under way never lands
  kLandAndTakeOver,  // it landed before
};

struct ExploredMove {
  Move move;
  std::size_t which = 0;  // pod, entry or late patch
};
[[nodiscard]] std::string Describe(const ExploredMove& move);

class ExploredWorld {
 public:
  explicit ExploredWorld(const ExploredFaults& faults);

  [[nodiscard]] std::vector<ExploredMove> Moves() const;
  void TakeBackup() { backup_ = stored_; }
  // Returns the rule that is broken now, if one is.
  [[nodiscard]] std::optional<std::string> Do(const ExploredMove& move);
  // Lets all requests succeed until nothing is left to do, and looks at what is written. Returns the rule that is
  // broken, if one is.
  [[nodiscard]] std::optional<std::string> ComeToRest();
  // The same for worlds that cannot be told apart from now on.
  [[nodiscard]] std::string Fingerprint() const;
  // The same for worlds that come to the same rest.
  [[nodiscard]] std::string FingerprintAtRest() const;

 private:
  struct Pod {
    enum class Is : std::uint8_t { kIdle, kAsking, kHolding, kFailed, kEnding, kEndingAgain, kEnded };
    Is is = Is::kIdle;
    ipam::BlockOffset offset = 0;  // of kHolding
    bool is_noted = false;         // handed out, and the note is there: offset says which address
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
  // A successor has no memory but the notes of the node.
  void TakeOver();
  // One step of a time without faults. False: nothing is left to do.
  [[nodiscard]] bool Rest(BlockState& state);
  [[nodiscard]] std::optional<std::string> WhatIsNotWritten() const;

  void Store(ipam::Block block);
  void Take(const News& news);
  void TakeOutcome(const Outcome& outcome);
  [[nodiscard]] std::optional<std::string> BrokenRule() const;
  [[nodiscard]] bool MayLand() const;
  [[nodiscard]] bool IsStoredWrong() const;
  [[nodiscard]] BlockState& Shared() const;

  // Fingerprints.
  class Printer;
  void PrintState(Printer& out) const;
  void PrintRound(const Round& round, Printer& out) const;
  void PrintWaiting(const Waiting& one, Printer& out) const;

  Core core_;         // its pointer to the state is shared by all copies of the world
  BlockState state_;  // what stands there while this world is looked at
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
  std::string broken_;     // what the core reported and may not
};

}  // namespace berth::agent_core
