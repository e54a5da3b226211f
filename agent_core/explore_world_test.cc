// SPDX-License-Identifier: Apache-2.0
// The moves of an explored world, and their effects.
#include <algorithm>
#include <utility>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {

namespace {

constexpr std::chrono::seconds kExploredLimit{10};
const std::string kExploredBlock = "10.55.0.0-31";

const ipam::PoolView& ExploredPool() {
  static const ipam::PoolView kPool = TestPoolView("10.55.0.0/30", "10.55.0.0/31");
  return kPool;
}

std::string PodName(std::size_t pod) { return "a" + std::to_string(pod + 1); }

CoreOptions ExploredOptions(const std::string& instance) {
  return {.self = {.node = "n1", .instance = instance}, .standby = 1};
}

bool IsUnderWay(const std::optional<Step>& asked) {
  return asked && (std::holds_alternative<Write>(*asked) || std::holds_alternative<Read>(*asked));
}

}  // namespace

std::string Describe(const ExploredMove& move) {
  constexpr std::array<std::string_view, 22> kNames = {
      "submit",       "hand out",      "delete",     "begin",   "upkeep",      "written",        "conflict", "refused",
      "lost, landed", "lost, dropped", "lost, late", "lands",   "unavailable", "read",           "go on",    "remove",
      "touch",        "observe",       "time limit", "restore", "take over",   "land, take over"};
  return std::string(kNames.at(static_cast<std::size_t>(move.move))) + " " + std::to_string(move.which);
}

ExploredWorld::ExploredWorld(const ExploredFaults& faults)
    : core_(ExploredOptions("m-a")),
      left_(faults),
      now_{.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)} {
  stored_ = EmptyBlock(*ExploredPool(), "10.55.0.0/31");
  TakeOver();
}

BlockState& ExploredWorld::Shared() const { return *core_.Find(kExploredBlock); }

std::vector<ExploredMove> ExploredWorld::Moves() const {
  std::vector<ExploredMove> moves;
  AddPodMoves(moves);
  AddAnswers(moves);
  AddFaults(moves);
  return moves;
}

void ExploredWorld::AddPodMoves(std::vector<ExploredMove>& moves) const {
  bool has_idle = false;
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod::Is is = pods_.at(i).is;
    // Pods without any call yet are interchangeable.
    const bool may_start = is == Pod::Is::kFailed || (is == Pod::Is::kIdle && !std::exchange(has_idle, true));
    if (may_start) moves.push_back({Move::kSubmit, i});
    // A caller first settles the pod's writes in doubt.
    const bool is_in_doubt = IsInDoubt(state_, AttachmentNamed(PodName(i)));
    if (may_start && !is_in_doubt && !core_.MayGive(state_, now_).empty()) moves.push_back({Move::kHandOut, i});
    if (is == Pod::Is::kHolding || is == Pod::Is::kFailed || is == Pod::Is::kEndingAgain) {
      moves.push_back({Move::kDelete, i});
    }
  }
  if (!state_.is_sending && !state_.queue.empty()) moves.push_back({Move::kBegin});
  const bool has_some = !state_.handed_out.empty() || !state_.to_restore.empty() || state_.must_fence;
  if (!state_.is_sending && state_.queue.empty() && has_some) moves.push_back({Move::kUpkeep});
}

void ExploredWorld::AddAnswers(std::vector<ExploredMove>& moves) const {
  if (!asked_) return;
  if (std::holds_alternative<Pause>(*asked_)) moves.push_back({Move::kGoOn});
  if (std::holds_alternative<Read>(*asked_)) moves.push_back({Move::kRead});
  if (IsUnderWay(asked_) && left_.outages > 0) moves.push_back({Move::kUnavailable});
  if (!std::holds_alternative<Write>(*asked_)) return;
  if (!MayLand()) moves.push_back({Move::kConflict});
  if (left_.losses > 0) moves.push_back({Move::kLostAndDropped});
  if (!MayLand()) return;
  moves.push_back({Move::kWritten});
  if (left_.refusals > 0) moves.push_back({Move::kRefused});
  if (left_.losses > 0) moves.push_back({Move::kLostAndLanded});
  if (left_.losses > 0) moves.push_back({Move::kLostAndLate});
}

void ExploredWorld::AddFaults(std::vector<ExploredMove>& moves) const {
  for (std::size_t i = 0; i < late_.size(); ++i) moves.push_back({Move::kLands, i});
  for (const auto& [offset, text] : stored_.allocations) {
    if (left_.removals > 0) moves.push_back({Move::kRemove, offset});
  }
  // After a restore, a touch could hide the restore from the agent. Entries that were freed since the backup would then
  // stay until the controller frees them.
  const bool is_restored = VersionOf(stored_) < VersionOf(*state_.view);
  if (left_.touches > 0 && !is_restored) moves.push_back({Move::kTouch});
  if (left_.restores > 0 && stored_ != backup_) moves.push_back({Move::kRestore});
  const ipam::BlockView& newest = state_.observed != nullptr ? state_.observed : state_.view;
  if (VersionOf(stored_) > VersionOf(*newest)) moves.push_back({Move::kObserve});
  if (left_.limits > 0 && (state_.is_sending || !state_.queue.empty())) moves.push_back({Move::kTimeLimit});
  if (left_.successors == 0 || IsStoredWrong()) return;
  moves.push_back({Move::kTakeOver});
  if (MayLand()) moves.push_back({Move::kLandAndTakeOver});
}

// True: a removal or a restore left an error that a successor cannot see: a pod without entry and note, or the entry of
// a pod whose DEL is over. The controller mends such errors.
bool ExploredWorld::IsStoredWrong() const {
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_.at(i);
    const bool is_stored = ipam::Find(stored_, AttachmentNamed(PodName(i))).has_value();
    if (pod.is == Pod::Is::kHolding && !pod.is_noted && !is_stored) return true;
    if (pod.is == Pod::Is::kEnded && is_stored) return true;
  }
  return false;
}

bool ExploredWorld::MayLand() const {
  const auto* write = asked_ ? std::get_if<Write>(&*asked_) : nullptr;
  return write != nullptr && write->before->resource_version == stored_.resource_version;
}

std::optional<std::string> ExploredWorld::Do(const ExploredMove& move) {
  BlockState& state = Shared();
  state = std::move(state_);
  if (move.move <= Move::kUpkeep) {
    DoAsPod(state, move);
  } else if (move.move <= Move::kGoOn) {
    DoAsServer(state, move);
  } else {
    DoAsOthers(state, move);
  }
  std::erase_if(late_, [this](const Late& one) { return one.decided_on != stored_.resource_version; });
  // A takeover replaces the state.
  state_ = Shared();
  return BrokenRule();
}

void ExploredWorld::DoAsPod(BlockState& state, const ExploredMove& move) {
  ipam::Change change = Taking(ExploredPool(), PodName(move.which));
  Pod& pod = pods_.at(move.which);
  if (move.move == Move::kSubmit) {
    change.may_take_standby = false;
    pod.is = Pod::Is::kAsking;
    ids_.push_back({core_.Submit(state, change, now_.steady + kExploredLimit), move.which, Asked::For::kTake});
  } else if (move.move == Move::kHandOut) {
    const auto given = core_.HandOut(state, change, now_);
    if (!given) return;
    pod = {.is = Pod::Is::kHolding, .offset = *ipam::Find(*given->block, change.attachment), .is_noted = true};
    ids_.push_back({given->id, move.which, Asked::For::kNote});
  } else if (move.move == Move::kDelete) {
    Delete(state, move.which);
  } else if (move.move == Move::kBegin) {
    Begin(state);
  } else {
    state.retry_pause = {};  // the pause has passed
    const auto ids = core_.WriteWhatIsLeft(now_);
    if (!ids.empty()) Begin(state);
    is_quiet_ = ids.empty() || !state.is_sending;
  }
}

void ExploredWorld::Delete(BlockState& state, std::size_t pod) {
  ipam::Change change = Releasing(PodName(pod));
  pods_.at(pod).is = Pod::Is::kEnding;
  // If a write of the pod is in doubt, its DEL asks for a fence.
  change.fence = IsInDoubt(state, change.attachment);
  const ChangeId id = change.fence ? core_.Submit(state, change, now_.steady + kExploredLimit)
                                   : core_.SubmitDeferred(state, change, Core::LingerOf(state), now_);
  ids_.push_back({id, pod, Asked::For::kRelease});
}

void ExploredWorld::Begin(BlockState& state) {
  state.is_sending = true;
  core_.Begin(state, now_.steady + kExploredLimit);
  Proceed(state);
}

void ExploredWorld::Proceed(BlockState& state) {
  News news;
  asked_ = core_.Next(state, now_, news);
  Take(news);
  if (!std::holds_alternative<Done>(*asked_)) return;
  asked_.reset();
  const ipam::BlockView observed = Core::End(state);
  if (observed == nullptr) return;
  News later;
  core_.Adopt(state, observed, now_, later);
  Take(later);
}

void ExploredWorld::Answer(BlockState& state, const Expected<ipam::BlockView>& answer) {
  News news;
  core_.Answer(state, answer, now_, now_, news);
  Take(news);
  Proceed(state);
}

void ExploredWorld::Store(ipam::Block block) {
  block.resource_version = std::to_string(++last_version_);
  stored_ = std::move(block);
}

void ExploredWorld::DoAsServer(BlockState& state, const ExploredMove& move) {
  const auto view = [this] { return std::make_shared<const ipam::Block>(stored_); };
  switch (move.move) {
    case Move::kWritten:
      Store(std::get<Write>(*asked_).after);
      return Answer(state, view());
    case Move::kConflict:
      return Answer(state, Fail(ErrorCode::kConflict, "it has been modified"));
    case Move::kRefused:
      --left_.refusals;
      return Answer(state, Fail(ErrorCode::kInvalid, "a policy refuses it"));
    case Move::kLostAndLanded:
      Store(std::get<Write>(*asked_).after);
      return Lose(state);
    case Move::kLostAndLate:
      late_.push_back({.decided_on = stored_.resource_version, .after = std::get<Write>(*asked_).after});
      return Lose(state);
    case Move::kLostAndDropped:
      return Lose(state);
    case Move::kLands:
      return Store(late_.at(move.which).after);
    case Move::kUnavailable:
      --left_.outages;
      return Answer(state, Fail(ErrorCode::kUnavailable, "the API server is away"));
    case Move::kRead:
      return Answer(state, view());
    default:
      now_.steady = std::max(now_.steady, std::get<Pause>(*asked_).until);
      return Proceed(state);
  }
}

void ExploredWorld::Lose(BlockState& state) {
  --left_.losses;
  Answer(state, Fail(ErrorCode::kUnknownOutcome, "no answer"));
}

void ExploredWorld::DoAsOthers(BlockState& state, const ExploredMove& move) {
  ipam::Block block = stored_;
  switch (move.move) {
    case Move::kRemove:
      --left_.removals;
      block.allocations.erase(static_cast<ipam::BlockOffset>(move.which));
      return Store(block);
    case Move::kTouch:
      --left_.touches;
      return Store(block);
    case Move::kRestore:
      --left_.restores;
      stored_ = backup_;
      return;
    case Move::kObserve:
      return Observe(state);
    case Move::kTimeLimit:
      --left_.limits;
      return PassTimeLimit(state);
    default:
      --left_.successors;
      if (move.move == Move::kLandAndTakeOver) Store(std::get<Write>(*asked_).after);
      return TakeOver();
  }
}

void ExploredWorld::Observe(BlockState& state) {
  const auto view = std::make_shared<const ipam::Block>(stored_);
  if (state.is_sending) {
    state.observed = view;
    return;
  }
  News news;
  core_.Adopt(state, view, now_, news);
  Take(news);
}

// Callers of ADDs give up, and withdraw their changes if these are still queued.
void ExploredWorld::PassTimeLimit(BlockState& state) {
  now_.steady += kExploredLimit;
  std::erase_if(ids_, [&](const Asked& one) {
    Pod& pod = pods_.at(one.pod);
    if (one.what != Asked::For::kTake) return false;
    Core::Withdraw(state, one.id);
    pod.is = Pod::Is::kFailed;
    return true;
  });
}

void ExploredWorld::TakeOver() {
  const std::string instance = core_.blocks().empty() ? "m-a" : "m-b";
  core_ = Core(ExploredOptions(instance));
  asked_.reset();
  ids_.clear();
  const auto before = std::make_shared<const ipam::Block>(stored_);
  ipam::Block fenced = stored_;
  fenced.agent = core_.NextFence();
  fenced.standby.clear();
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_.at(i);
    if (pod.is_noted && !fenced.allocations.contains(pod.offset) && !ipam::Find(fenced, AttachmentNamed(PodName(i)))) {
      fenced.standby.insert(pod.offset);
    }
  }
  Store(std::move(fenced));
  News news;
  core_.TakeProof(now_.since_boot, /*is_kept=*/true, now_, news);
  core_.Insert(std::make_shared<const ipam::Block>(stored_), before, now_, news);
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    Pod& pod = pods_.at(i);
    if (pod.is == Pod::Is::kAsking) pod.is = Pod::Is::kFailed;
    if (!pod.is_noted) continue;
    HandedOut note{.attachment = AttachmentNamed(PodName(i)), .entry = EntryText(PodName(i))};
    const ChangeId id = core_.Resume("uid-1", pod.offset, std::move(note), kExploredBlock, news);
    pod.is_noted = id != 0;
    if (id != 0) ids_.push_back({id, i, Asked::For::kNote});
  }
  Take(news);
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    // The successor finds the DEL in the journal.
    if (pods_.at(i).is == Pod::Is::kEnding || pods_.at(i).is == Pod::Is::kEndingAgain) Delete(Shared(), i);
  }
  state_ = Shared();
}

void ExploredWorld::Take(const News& news) {
  for (const Report& report : news.reports) {
    const auto is_lost = [&](const Pod& pod) {
      const std::string name = PodName(static_cast<std::size_t>(&pod - pods_.data()));
      return pod.is == Pod::Is::kHolding && ipam::AttachmentOf(report.text) == AttachmentNamed(name);
    };
    if (report.kind == Report::Kind::kHandedOutLost && std::ranges::any_of(pods_, is_lost)) {
      broken_ = "an address that a pod has is given up";
    }
    if (report.kind == Report::Kind::kWentBack && VersionOf(stored_) == last_version_)
      broken_ = "the agent thinks that the API server went back";
  }
  for (const ChangeId id : news.settled) {
    for (const Asked& one : ids_) {
      if (one.id == id) pods_.at(one.pod).is_noted = false;
    }
    std::erase_if(ids_, [id](const Asked& one) { return one.id == id; });
  }
  for (const Outcome& outcome : news.outcomes) TakeOutcome(outcome);
}

void ExploredWorld::TakeOutcome(const Outcome& outcome) {
  const auto found = std::ranges::find_if(ids_, [&](const Asked& one) { return one.id == outcome.id; });
  if (found == ids_.end()) return;
  Pod& pod = pods_.at(found->pod);
  if (found->what == Asked::For::kRelease) {
    pod.is = outcome.result ? Pod::Is::kEnded : Pod::Is::kEndingAgain;
  } else if (!outcome.result) {
    pod.is = Pod::Is::kFailed;
  } else if (const auto offset = ipam::Find(**outcome.result, AttachmentNamed(PodName(found->pod)))) {
    pod.is = Pod::Is::kHolding;
    pod.offset = *offset;
  } else {
    broken_ = "an ADD succeeds without an address";
  }
  ids_.erase(found);
}

std::optional<std::string> ExploredWorld::BrokenRule() const {
  if (!broken_.empty()) return broken_;
  if (const auto broken = FindBrokenInvariant(state_)) return broken;
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    for (std::size_t k = i + 1; k < pods_.size(); ++k) {
      const bool have_both = pods_.at(i).is == Pod::Is::kHolding && pods_.at(k).is == Pod::Is::kHolding;
      if (have_both && pods_.at(i).offset == pods_.at(k).offset) return "two pods have one address";
    }
  }
  return std::nullopt;
}

bool ExploredWorld::Rest(BlockState& state) {
  if (asked_) {
    const Move answer = std::holds_alternative<Read>(*asked_)    ? Move::kRead
                        : std::holds_alternative<Pause>(*asked_) ? Move::kGoOn
                        : MayLand()                              ? Move::kWritten
                                                                 : Move::kConflict;
    DoAsServer(state, {answer});
    return true;
  }
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    // After a failed ADD, the runtime sends a DEL.
    if (pods_.at(i).is != Pod::Is::kEndingAgain && pods_.at(i).is != Pod::Is::kFailed) continue;
    Delete(state, i);
    return true;
  }
  if (!state.queue.empty()) {
    Begin(state);
  } else if (VersionOf(stored_) > VersionOf(*state.view)) {
    Observe(state);
  } else if (VersionOf(stored_) < VersionOf(*state.view) && !state.must_fence) {
    // If a list shows an older version, OwnBlocks makes a write: the write meets a conflict, and finds the restore.
    state.must_fence = true;
  } else if (!is_quiet_) {
    DoAsPod(state, {Move::kUpkeep});
  } else {
    return false;
  }
  return true;
}

std::optional<std::string> ExploredWorld::ComeToRest() {
  constexpr int kStepsMax = 100;
  BlockState& state = Shared();
  state = std::move(state_);
  late_.clear();
  is_quiet_ = false;
  int steps = 0;
  while (steps < kStepsMax && broken_.empty() && Rest(state)) ++steps;
  state_ = state;
  if (const auto broken = BrokenRule()) return broken;
  return steps == kStepsMax ? "it never comes to rest" : WhatIsNotWritten();
}

std::optional<std::string> ExploredWorld::WhatIsNotWritten() const {
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_.at(i);
    const auto found = ipam::Find(stored_, AttachmentNamed(PodName(i)));
    if (pod.is == Pod::Is::kAsking || pod.is == Pod::Is::kEnding) return "a call has no answer";
    if (pod.is == Pod::Is::kHolding && found != pod.offset) return "the entry of a pod is lost for good";
    if (pod.is == Pod::Is::kEnded && found) return "the entry of a pod that is gone is there for good";
    if (pod.is_noted) return "a note stays for good";
  }
  const auto is_own = [](const auto& one) { return !one.second.is_set_aside(); };
  const bool has_work = state_.must_fence || state_.doubt_version || std::ranges::any_of(state_.handed_out, is_own);
  if (has_work) return "something is left to be written, and nobody writes it";
  // After a restore, the last writer may be the earlier agent, which counts as a foreign agent.
  const bool may_give = state_.is_failing || state_.foreign_agent || core_.TrustIn(state_, now_) == Trust::kGives;
  if (!may_give) return "standby stays out of use";
  return std::nullopt;
}

}  // namespace berth::agent_core
