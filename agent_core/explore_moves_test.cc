// SPDX-License-Identifier: Apache-2.0
// The moves that are possible in an explored world.
#include <algorithm>
#include <array>
#include <utility>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {

std::string Describe(const ExploredMove& move) {
  constexpr std::array<std::string_view, 21> kNames = {
      "submit",  "hand out",     "delete",        "begin",      "upkeep",  "written",     "conflict",
      "refused", "lost, landed", "lost, dropped", "lost, late", "lands",   "unavailable", "read",
      "remove",  "touch",        "observe",       "time limit", "restore", "take over",   "land, take over"};
  return std::string(kNames.at(static_cast<std::size_t>(move.move))) + " " + std::to_string(move.which) +
         (move.block == 0 ? "" : " in block " + std::to_string(move.block));
}

std::string Describe(const std::vector<ExploredMove>& moves) {
  std::string told;
  for (const ExploredMove& move : moves) told += Describe(move) + "\n";
  return told;
}

std::vector<ExploredMove> ExploredWorld::Moves() const {
  constexpr std::size_t kUsual = 24;
  std::vector<ExploredMove> moves;
  moves.reserve(kUsual);
  AddPodMoves(moves);
  for (std::size_t block = 0; block < server_.size(); ++block) {
    AddAnswers(block, moves);
    AddOthers(block, moves);
  }
  AddFaultsOfAll(moves);
  return moves;
}

void ExploredWorld::AddPodMoves(std::vector<ExploredMove>& moves) const {
  bool has_idle = false;
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_[i];
    if (pod.is == Pod::Is::kFailed) AddStart(i, pod.block, moves);
    // Pods without any call yet are interchangeable.
    if (pod.is == Pod::Is::kIdle && !std::exchange(has_idle, true)) {
      for (std::size_t block = 0; block < server_.size(); ++block) AddStart(i, block, moves);
    }
    if (pod.is == Pod::Is::kHolding || pod.is == Pod::Is::kFailed || pod.is == Pod::Is::kEndingAgain) {
      moves.push_back({Move::kDelete, static_cast<std::uint8_t>(i)});
    }
  }
  bool has_left = false;
  for (std::size_t block = 0; block < server_.size(); ++block) {
    const BlockState& state = State(block);
    if (state.is_sending) continue;
    if (!state.queue.empty()) moves.push_back({Move::kBegin, 0, static_cast<std::uint8_t>(block)});
    const bool has_some = !state.handed_out.empty() || !state.to_restore.empty() || state.must_fence;
    has_left = has_left || (state.queue.empty() && has_some);
  }
  if (has_left) moves.push_back({Move::kUpkeep});
}

void ExploredWorld::AddStart(std::size_t pod, std::size_t block, std::vector<ExploredMove>& moves) const {
  const auto which = static_cast<std::uint8_t>(pod);
  const auto at = static_cast<std::uint8_t>(block);
  moves.push_back({Move::kSubmit, which, at});
  // A caller first settles the pod's writes in doubt.
  const bool is_in_doubt = IsInDoubt(State(block), ExploredAttachment(pod));
  if (!is_in_doubt && !core_->MayGive(State(block), now_).empty()) moves.push_back({Move::kHandOut, which, at});
}

void ExploredWorld::AddAnswers(std::size_t block, std::vector<ExploredMove>& moves) const {
  const auto add = [&](Move move) { moves.push_back({move, 0, static_cast<std::uint8_t>(block)}); };
  const Awaits awaits = server_[block].awaits;
  if (awaits == Awaits::kNothing) return;
  if (awaits == Awaits::kRead) add(Move::kRead);
  if (left_.outages > 0) add(Move::kUnavailable);
  if (awaits != Awaits::kWrite) return;
  if (!MayLand(block)) add(Move::kConflict);
  if (left_.losses > 0) add(Move::kLostAndDropped);
  if (!MayLand(block)) return;
  add(Move::kWritten);
  if (left_.refusals > 0) add(Move::kRefused);
  if (left_.losses > 0) add(Move::kLostAndLanded);
  if (left_.losses > 0) add(Move::kLostAndLate);
}

void ExploredWorld::AddOthers(std::size_t block, std::vector<ExploredMove>& moves) const {
  const AtServer& at = server_[block];
  const BlockState& state = State(block);
  const auto add = [&](Move move, std::size_t which = 0) {
    moves.push_back({move, static_cast<std::uint8_t>(which), static_cast<std::uint8_t>(block)});
  };
  for (std::size_t i = 0; i < at.late.size(); ++i) add(Move::kLands, i);
  const ipam::BlockView& newest = state.observed != nullptr ? state.observed : state.view;
  if (VersionOf(*at.stored) > VersionOf(*newest)) add(Move::kObserve);
  // After a restore, another write could hide the restore from the agent. Entries that were freed since the backup
  // would then stay until the controller frees them.
  if (at.is_restored(state)) return;
  if (left_.touches > 0) add(Move::kTouch);
  if (left_.removals == 0) return;
  for (const auto& [offset, text] : at.stored->allocations) add(Move::kRemove, offset);
}

void ExploredWorld::AddFaultsOfAll(std::vector<ExploredMove>& moves) const {
  const auto differs = [](const AtServer& at) { return *at.stored != *at.backup; };
  if (left_.restores > 0 && std::ranges::any_of(server_, differs)) moves.push_back({Move::kRestore});
  bool has_changes = false;
  for (std::size_t block = 0; block < server_.size(); ++block) {
    has_changes = has_changes || State(block).is_sending || !State(block).queue.empty();
  }
  if (left_.limits > 0 && has_changes) moves.push_back({Move::kTimeLimit});
  if (left_.successors == 0 || IsStoredWrong()) return;
  moves.push_back({Move::kTakeOver});
  for (std::size_t block = 0; block < server_.size(); ++block) {
    if (MayLand(block)) moves.push_back({Move::kLandAndTakeOver, 0, static_cast<std::uint8_t>(block)});
  }
}

// True: a removal or a restore left an error that a successor cannot see: a pod without entry and note, or the entry of
// a pod whose DEL is over. The controller mends such errors.
bool ExploredWorld::IsStoredWrong() const {
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_[i];
    const bool may_be_wrong = (pod.is == Pod::Is::kHolding && !pod.is_noted) || pod.is == Pod::Is::kEnded;
    if (!may_be_wrong) continue;
    const bool is_stored = ipam::Find(*server_[pod.block].stored, ExploredAttachment(i)).has_value();
    if (is_stored == (pod.is == Pod::Is::kEnded)) return true;
  }
  return false;
}

bool ExploredWorld::MayLand(std::size_t block) const {
  const AtServer& at = server_[block];
  return at.awaits == Awaits::kWrite && Patch(block).before->resource_version == at.stored->resource_version;
}

bool ExploredWorld::IsSending() const {
  for (std::size_t block = 0; block < server_.size(); ++block) {
    if (State(block).is_sending) return true;
  }
  return false;
}

}  // namespace berth::agent_core
