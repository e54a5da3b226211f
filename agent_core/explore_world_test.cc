// SPDX-License-Identifier: Apache-2.0
// The effects of the moves of an explored world.
#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {

namespace {

constexpr std::chrono::seconds kExploredLimit{10};

std::string PodName(std::size_t pod) { return "a" + std::to_string(pod + 1); }

CoreOptions ExploredOptions(int agents, std::size_t standby) {
  return {.self = {.node = "n1", .instance = std::string("m-") + static_cast<char>('a' + agents)}, .standby = standby};
}

// The text is what a failed check prints.
std::function<std::string()>& ToldAtAbort() {
  static std::function<std::string()> tell;
  return tell;
}

}  // namespace

TellsAtAbort::TellsAtAbort(std::function<std::string()> tell) {
  ToldAtAbort() = std::move(tell);
  // BERTH_CHECK calls abort(), so the handler may do anything that a function may do.
  // NOLINTNEXTLINE(bugprone-signal-handler)
  std::signal(SIGABRT, [](int /*signal*/) { std::fprintf(stderr, "%s\n", ToldAtAbort()().c_str()); });
}

TellsAtAbort::~TellsAtAbort() {
  std::signal(SIGABRT, SIG_DFL);
  ToldAtAbort() = nullptr;
}

void CopiedCore::FindStates() {
  states_.clear();
  for (const auto& [name, state] : core_.blocks()) states_.push_back(state);
}

void CopiedCore::CopyStates() {
  states_.resize(core_.blocks().size());
  std::size_t i = 0;
  // The core gives no way to replace its states, because no other code needs that.
  for (auto& [name, state] : const_cast<std::map<std::string, Core::StatePointer>&>(core_.blocks())) {
    Core::StatePointer& own = states_[i++];
    if (own == nullptr) {
      own = std::make_shared<BlockState>(*state);
    } else {
      *own = *state;
    }
    state = own;
  }
}

CopiedCore& CopiedCore::operator=(const CopiedCore& other) {
  if (this == &other) return *this;
  core_ = other.core_;
  CopyStates();
  return *this;
}

const ipam::Attachment& ExploredAttachment(std::size_t pod) {
  constexpr std::size_t kPodsMax = 16;
  static const auto kAttachments = [] {
    std::array<ipam::Attachment, kPodsMax> all;
    for (std::size_t i = 0; i < kPodsMax; ++i) all.at(i) = AttachmentNamed(PodName(i));
    return all;
  }();
  return kAttachments.at(pod);
}

ExploredWorld::ExploredWorld(const ExploredFaults& faults, const ExploredShape& shape)
    : shape_(shape),
      pool_(TestPoolView("10.55.0.0/24", "10.55.0.0/" + std::to_string(shape.block_length))),
      core_(ExploredOptions(0, shape.standby)),
      pods_(shape.pods),
      left_(faults),
      now_{.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)} {
  constexpr int kBits = 32;
  for (std::size_t i = 0; i < shape.blocks; ++i) {
    const std::string first = "10.55.0." + std::to_string(i << (kBits - shape.block_length));
    ipam::Block block = EmptyBlock(*pool_, first + "/" + std::to_string(shape.block_length));
    server_.push_back({.stored = std::make_shared<const ipam::Block>(std::move(block)), .backup = nullptr, .late = {}});
  }
  TakeOver();
  TakeBackup();
}

void ExploredWorld::TakeBackup() {
  for (AtServer& at : server_) at.backup = at.stored;
}

std::optional<std::string> ExploredWorld::Do(const ExploredMove& move) {
  if (move.move <= Move::kUpkeep) {
    DoAsPod(move);
  } else if (move.move <= Move::kRead) {
    DoAsServer(move);
  } else {
    DoAsOthers(move);
  }
  for (AtServer& at : server_) {
    std::erase_if(at.late, [&](const auto& after) { return after->resource_version != at.stored->resource_version; });
  }
  return BrokenRule();
}

void ExploredWorld::DoAsPod(const ExploredMove& move) {
  if (move.move == Move::kDelete) return Delete(move.which);
  if (move.move == Move::kBegin) return Begin(move.block);
  if (move.move == Move::kUpkeep) return DoUpkeep();
  BlockState& state = State(move.block);
  ipam::Change change = Taking(pool_, PodName(move.which));
  Pod& pod = pods_[move.which];
  if (move.move == Move::kSubmit) {
    change.may_take_standby = false;
    pod.is = Pod::Is::kAsking;
    pod.block = move.block;
    ids_.push_back({core_->Submit(state, change, now_.steady + kExploredLimit), move.which, Asked::For::kTake});
  } else if (const auto given = core_->HandOut(state, change, now_)) {
    pod = {.is = Pod::Is::kHolding,
           .block = move.block,
           .is_noted = true,
           .offset = *ipam::Find(*given->block, change.attachment)};
    ids_.push_back({given->id, move.which, Asked::For::kNote});
  }
}

void ExploredWorld::DoUpkeep() {
  for (std::size_t block = 0; block < server_.size(); ++block) State(block).upkeep_pause = {};  // the pause has passed
  if (!core_->WriteWhatIsLeft(now_).empty()) {
    for (std::size_t block = 0; block < server_.size(); ++block) {
      if (!State(block).is_sending && !State(block).queue.empty()) Begin(block);
    }
  }
  is_quiet_ = !IsSending();
}

void ExploredWorld::Delete(std::size_t pod) {
  pods_[pod].is = Pod::Is::kEnding;
  BlockState& state = State(pods_[pod].block);
  ipam::Change change = Releasing(PodName(pod));
  // If a write of the pod is in doubt, its DEL asks for a fence.
  change.fence = IsInDoubt(state, change.attachment);
  const ChangeId id = change.fence ? core_->Submit(state, change, now_.steady + kExploredLimit)
                                   : core_->SubmitDeferred(state, change, Core::LingerOf(state), now_);
  ids_.push_back({id, pod, Asked::For::kRelease});
}

void ExploredWorld::Begin(std::size_t block) {
  State(block).is_sending = true;
  core_->Begin(State(block), now_.steady + kExploredLimit);
  Proceed(block);
}

void ExploredWorld::Proceed(std::size_t block) {
  News news;
  const Step step = core_->Next(State(block), now_, news);
  Awaits& awaits = server_[block].awaits;
  awaits = static_cast<Awaits>(step.index());
  Take(news);
  if (awaits != Awaits::kNothing) return;
  const ipam::BlockView observed = Core::End(State(block));
  if (observed == nullptr) return;
  News later;
  core_->Adopt(State(block), observed, now_, later);
  Take(later);
}

void ExploredWorld::Answer(std::size_t block, const Expected<ipam::BlockView>& answer) {
  News news;
  core_->Answer(State(block), answer, now_, now_, news);
  Take(news);
  Proceed(block);
}

void ExploredWorld::Store(std::size_t block, ipam::Block after) {
  after.resource_version = std::to_string(++last_version_);
  server_[block].newest = last_version_;
  server_[block].stored = std::make_shared<const ipam::Block>(std::move(after));
}

void ExploredWorld::DoAsServer(const ExploredMove& move) {
  const std::size_t block = move.block;
  AtServer& at = server_[block];
  switch (move.move) {
    case Move::kWritten:
      Store(block, Patch(block).after);
      return Answer(block, at.stored);
    case Move::kConflict:
      return Answer(block, Fail(ErrorCode::kConflict, "it has been modified"));
    case Move::kRefused:
      --left_.refusals;
      return Answer(block, Fail(ErrorCode::kInvalid, "a policy refuses it"));
    case Move::kLostAndLanded:
      Store(block, Patch(block).after);
      return Lose(block);
    case Move::kLostAndLate:
      at.late.push_back(std::make_shared<const ipam::Block>(Patch(block).after));
      return Lose(block);
    case Move::kLostAndDropped:
      return Lose(block);
    case Move::kLands:
      return Store(block, *at.late[move.which]);
    case Move::kUnavailable:
      --left_.outages;
      return Answer(block, Fail(ErrorCode::kUnavailable, "the API server is away"));
    default:
      return Answer(block, at.stored);
  }
}

void ExploredWorld::Lose(std::size_t block) {
  --left_.losses;
  Answer(block, Fail(ErrorCode::kUnknownOutcome, "no answer"));
}

void ExploredWorld::DoAsOthers(const ExploredMove& move) {
  ipam::Block block = *server_[move.block].stored;
  switch (move.move) {
    case Move::kRemove:
      --left_.removals;
      block.allocations.erase(move.which);
      return Store(move.block, std::move(block));
    case Move::kTouch:
      --left_.touches;
      return Store(move.block, std::move(block));
    case Move::kRestore:
      --left_.restores;
      for (AtServer& at : server_) at.stored = at.backup;
      return;
    case Move::kObserve:
      return Observe(move.block);
    case Move::kTimeLimit:
      --left_.limits;
      return PassTimeLimit();
    default:
      --left_.successors;
      if (move.move == Move::kLandAndTakeOver) Store(move.block, Patch(move.block).after);
      return TakeOver();
  }
}

void ExploredWorld::Observe(std::size_t block) {
  if (State(block).is_sending) return Core::KeepUntilEnd(State(block), server_[block].stored);
  News news;
  core_->Adopt(State(block), server_[block].stored, now_, news);
  Take(news);
}

// Callers of ADDs give up, and withdraw their changes if these are still queued.
void ExploredWorld::PassTimeLimit() {
  now_.steady += kExploredLimit;
  std::erase_if(ids_, [&](const Asked& one) {
    if (one.what != Asked::For::kTake) return false;
    Core::Withdraw(State(pods_[one.pod].block), one.id);
    pods_[one.pod].is = Pod::Is::kFailed;
    return true;
  });
}

void ExploredWorld::TakeOver() {
  core_ = CopiedCore(ExploredOptions(agents_++, shape_.standby));
  ids_.clear();
  News news;
  core_->TakeProof(now_.since_boot, /*is_kept=*/true, now_, news);
  for (std::size_t block = 0; block < server_.size(); ++block) FenceAsSuccessor(block, news);
  core_.FindStates();
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    Pod& pod = pods_[i];
    if (pod.is == Pod::Is::kAsking) pod.is = Pod::Is::kFailed;
    if (!pod.is_noted) continue;
    HandedOut note{.attachment = ExploredAttachment(i), .entry = EntryText(PodName(i))};
    const ChangeId id = core_->Resume("uid-1", pod.offset, std::move(note), server_[pod.block].stored->name, news);
    pod.is_noted = id != 0;
    if (id != 0) ids_.push_back({id, i, Asked::For::kNote});
  }
  Take(news);
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    // The successor finds the DEL in the journal.
    if (pods_[i].is == Pod::Is::kEnding || pods_[i].is == Pod::Is::kEndingAgain) Delete(i);
  }
}

void ExploredWorld::FenceAsSuccessor(std::size_t block, News& news) {
  AtServer& at = server_[block];
  at.awaits = Awaits::kNothing;
  const ipam::BlockView before = at.stored;
  ipam::Block fenced = *before;
  fenced.agent = core_->NextFence();
  fenced.standby.clear();
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_[i];
    if (pod.block == block && pod.is_noted && !fenced.allocations.contains(pod.offset) &&
        !ipam::Find(fenced, ExploredAttachment(i))) {
      fenced.standby.insert(pod.offset);
    }
  }
  Store(block, std::move(fenced));
  core_->Insert(at.stored, before, now_, news);
}

void ExploredWorld::Take(const News& news) {
  for (const Report& report : news.reports) {
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      if (report.kind == Report::Kind::kHandedOutLost && pods_[i].is == Pod::Is::kHolding &&
          ipam::AttachmentOf(report.text) == ExploredAttachment(i)) {
        broken_ = "an address that a pod has is given up";
      }
    }
    for (const AtServer& at : server_) {
      if (report.kind == Report::Kind::kWentBack && report.block == at.stored->name &&
          VersionOf(*at.stored) == at.newest) {
        broken_ = "the agent thinks that the API server went back";
      }
    }
  }
  for (const ChangeId id : news.settled) {
    for (const Asked& one : ids_) {
      if (one.id == id) pods_[one.pod].is_noted = false;
    }
    std::erase_if(ids_, [id](const Asked& one) { return one.id == id; });
  }
  for (const Outcome& outcome : news.outcomes) TakeOutcome(outcome);
}

void ExploredWorld::TakeOutcome(const Outcome& outcome) {
  const auto found = std::ranges::find_if(ids_, [&](const Asked& one) { return one.id == outcome.id; });
  if (found == ids_.end()) return;
  Pod& pod = pods_[found->pod];
  if (found->what == Asked::For::kRelease) {
    pod.is = outcome.result ? Pod::Is::kEnded : Pod::Is::kEndingAgain;
  } else if (!outcome.result) {
    pod.is = Pod::Is::kFailed;
  } else if (const auto offset = ipam::Find(**outcome.result, ExploredAttachment(found->pod))) {
    pod.is = Pod::Is::kHolding;
    pod.offset = *offset;
  } else {
    broken_ = "an ADD succeeds without an address";
  }
  ids_.erase(found);
}

std::optional<std::string> ExploredWorld::BrokenRule() const {
  if (!broken_.empty()) return broken_;
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& one = pods_[i];
    if (one.is != Pod::Is::kHolding) continue;
    for (std::size_t k = i + 1; k < pods_.size(); ++k) {
      const Pod& other = pods_[k];
      const bool have_one = one.block == other.block && one.offset == other.offset;
      if (other.is == Pod::Is::kHolding && have_one) return "two pods have one address";
    }
  }
  return std::nullopt;
}

bool ExploredWorld::Rest() {
  for (std::size_t block = 0; block < server_.size(); ++block) {
    const Awaits awaits = server_[block].awaits;
    if (awaits == Awaits::kNothing) continue;
    const Move answer = awaits == Awaits::kRead ? Move::kRead : MayLand(block) ? Move::kWritten : Move::kConflict;
    DoAsServer({answer, 0, static_cast<std::uint8_t>(block)});
    return true;
  }
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    // After a failed ADD, the runtime sends a DEL.
    if (pods_[i].is != Pod::Is::kEndingAgain && pods_[i].is != Pod::Is::kFailed) continue;
    Delete(i);
    return true;
  }
  for (std::size_t block = 0; block < server_.size(); ++block) {
    if (RestOf(block)) return true;
  }
  if (!is_quiet_) DoUpkeep();
  return !is_quiet_;
}

bool ExploredWorld::RestOf(std::size_t block) {
  BlockState& state = State(block);
  const AtServer& at = server_[block];
  if (!state.queue.empty()) {
    Begin(block);
  } else if (VersionOf(*at.stored) > VersionOf(*state.view)) {
    Observe(block);
  } else if (at.is_restored(state) && !state.must_fence) {
    // If a list shows an older version, OwnBlocks makes a write: the write meets a conflict, and finds the restore.
    state.must_fence = true;
  } else {
    return false;
  }
  return true;
}

std::optional<std::string> ExploredWorld::ComeToRest(const std::function<bool(std::uint64_t)>& is_known_to_rest) {
  constexpr int kStepsMax = 100;
  const int steps_max = kStepsMax * static_cast<int>(server_.size());
  for (AtServer& at : server_) at.late.clear();
  is_quiet_ = false;
  int steps = 0;
  while (steps < steps_max && broken_.empty() && Rest()) {
    ++steps;
    if (broken_.empty() && is_known_to_rest && is_known_to_rest(TakeFingerprint().at_rest)) return BrokenRule();
  }
  if (const auto broken = BrokenRule()) return broken;
  return steps == steps_max ? "it never comes to rest" : WhatIsNotWritten();
}

std::optional<std::string> ExploredWorld::WhatIsNotWritten() const {
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const Pod& pod = pods_[i];
    const auto found = ipam::Find(*server_[pod.block].stored, ExploredAttachment(i));
    if (pod.is == Pod::Is::kAsking || pod.is == Pod::Is::kEnding) return "a call has no answer";
    if (pod.is == Pod::Is::kHolding && found != pod.offset) return "the entry of a pod is lost for good";
    if (pod.is == Pod::Is::kEnded && found) return "the entry of a pod that is gone is there for good";
    if (pod.is_noted) return "a note stays for good";
  }
  const auto is_own = [](const auto& one) { return !one.second.is_set_aside(); };
  for (std::size_t block = 0; block < server_.size(); ++block) {
    const BlockState& state = State(block);
    const bool has_work = state.must_fence || state.doubt_version || std::ranges::any_of(state.handed_out, is_own);
    if (has_work) return "something is left to be written, and nobody writes it";
    // After a restore, the last writer may be the earlier agent, which counts as a foreign agent.
    const bool may_give = state.is_failing || state.foreign_agent || core_->TrustIn(state, now_) == Trust::kGives;
    if (!may_give) return "standby stays out of use";
  }
  return std::nullopt;
}

}  // namespace berth::agent_core
