// SPDX-License-Identifier: Apache-2.0
// Callers and threads: which thread waits for a change, which thread sends it, and who gets the result.
#include "agent/own_blocks.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/check.h"
#include "base/mutex.h"

namespace berth::agent {

using agent_core::BlockState;
using agent_core::ChangeId;
using agent_core::Core;
using agent_core::News;
using agent_core::Now;
using agent_core::PendingChange;
using ipam::BlockView;

namespace {

constexpr int kGatherPart = 4;

std::unexpected<Error> IsGone(const std::string& block) {
  return Fail(ErrorCode::kNotFound, "block " + block + " is gone");
}

}  // namespace

OwnBlocks::OwnBlocks(k8sclient::Api& api, k8sclient::Clock& clock, node::NodeDirectory directory,
                     agent_core::CoreOptions options, BlockObserver& observer)
    : api_(api),
      clock_(clock),
      observer_(observer),
      self_(options.self),
      notes_(std::make_shared<const node::NodeDirectory>(std::move(directory))),
      core_(std::move(options)) {}

Now OwnBlocks::TimeNow() const {
  return {.steady = std::chrono::steady_clock::now(), .since_boot = clock_.SinceBoot()};
}

std::vector<BlockView> OwnBlocks::Snapshot(std::uint64_t until) const {
  const Lock lock(mutex_);
  std::vector<BlockView> views;
  views.reserve(core_.blocks().size());
  for (const auto& [name, state] : core_.blocks()) {
    if (state->added_generation <= until) views.push_back(agent_core::Shown(*state));
  }
  return views;
}

std::set<std::string> OwnBlocks::Names() const {
  const Lock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, state] : core_.blocks()) names.insert(name);
  return names;
}

std::uint64_t OwnBlocks::Generation() const {
  const Lock lock(mutex_);
  return core_.generation();
}

bool OwnBlocks::Knows(const std::string& block) const { return FindState(block) != nullptr; }

bool OwnBlocks::Holds(const ipam::Attachment& attachment) const {
  const Lock lock(mutex_);
  return std::ranges::any_of(core_.blocks(),
                             [&](const auto& named) { return agent_core::Holds(*named.second, attachment); });
}

OwnBlocks::StatePointer OwnBlocks::FindState(const std::string& name) const {
  const Lock lock(mutex_);
  return core_.Find(name);
}

OwnBlocks::SignalsPointer OwnBlocks::SignalsOf(const std::string& block) {
  if (!signals_.contains(block)) {
    std::erase_if(signals_, [this](const auto& one) BERTH_REQUIRES(mutex_) {
      return one.second.use_count() == 1 && core_.Find(one.first) == nullptr;
    });
  }
  SignalsPointer& signals = signals_[block];
  if (signals == nullptr) signals = std::make_shared<Signals>();
  return signals;
}

std::shared_ptr<OwnBlocks::Waiter> OwnBlocks::TakeWaiter(ChangeId id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return nullptr;
  std::shared_ptr<Waiter> waiter = std::move(found->second);
  waiters_.erase(found);
  return waiter;
}

void OwnBlocks::Deliver(Lock& lock, const News& news) {
  std::vector<std::shared_ptr<Waiter>> settled;
  for (const ChangeId id : news.settled) {
    if (auto waiter = TakeWaiter(id)) settled.push_back(std::move(waiter));
  }
  ++delivering_;
  lock.native().unlock();
  for (const agent_core::Report& report : news.reports) observer_.Tell(report);
  // Remove notes before any call is answered: an answered DEL must not leave a note behind.
  for (const auto& waiter : settled) waiter->done(nullptr);
  lock.native().lock();
  std::vector<std::pair<std::shared_ptr<Waiter>, const agent_core::Outcome*>> to_call;
  for (const agent_core::Outcome& outcome : news.outcomes) {
    auto waiter = TakeWaiter(outcome.id);
    if (waiter == nullptr) continue;
    if (waiter->done) {
      to_call.emplace_back(std::move(waiter), &outcome);
    } else {
      waiter->result = outcome.result;
      waiter->changed.notify_one();
    }
  }
  lock.native().unlock();
  for (const auto& [waiter, outcome] : to_call) waiter->done(outcome->result);
  to_call.clear();
  lock.native().lock();
  if (--delivering_ == 0) no_deferred_left_.notify_all();
}

Expected<BlockView> OwnBlocks::Edit(const BlockView& seen, const ipam::Change& change, SteadyTime deadline) {
  if (const StatePointer state = FindState(seen->name)) return WriteIn(state, change, deadline);
  return Fail(
      ErrorCode::kUnavailable, "block " + seen->name + " was deleted a moment ago", "the runtime tries the call again");
}

Expected<BlockView> OwnBlocks::WriteIn(const StatePointer& state, const ipam::Change& change, SteadyTime deadline) {
  const auto self = std::make_shared<Waiter>();
  Lock lock(mutex_);
  const std::string block = state->view->name;
  const SignalsPointer signals = SignalsOf(block);
  const ChangeId id = core_.Submit(*state, change, deadline);
  waiters_[id] = self;
  const auto withdraw = [&]() BERTH_REQUIRES(mutex_) {
    if (!Core::Withdraw(*state, id)) return false;
    waiters_.erase(id);
    return true;
  };
  if (state->is_sending && agent_core::CountCallers(state->queue) >= signals->expected) signals->arrived.notify_one();
  while (!self->result && !core_.stopped()) {
    if (!state->is_sending && change.may_take_standby && !core_.MayGive(*state, TimeNow()).empty() && withdraw()) {
      if (signals->expected > 0) --signals->expected;
      WakeNext(*state);
      return nullptr;
    }
    // The sender waits for the API server's answer, but not longer than its own deadline. So the caller with the latest
    // deadline sends.
    if (!state->is_sending && std::chrono::steady_clock::now() < deadline && SenderOf(*state) == id) {
      state->is_sending = true;
      lock.unlock();
      SendBatch(state, deadline);
      lock.lock();
      continue;
    }
    if (self->changed.wait_until(lock.native(), deadline) != std::cv_status::timeout || self->result) continue;
    if (!withdraw()) {
      // The attachment stays in doubt (InDoubt) until the batch has ended.
      return Fail(ErrorCode::kUnknownOutcome,
                  "the time limit passed before the API server answered for block " + block,
                  "the runtime tries the call again; is the API server slow?");
    }
    // This caller may have been the next sender: wake another thread.
    if (!state->is_sending) WakeNext(*state);
    return Fail(ErrorCode::kTimeout,
                "the time limit passed before the change of block " + block + " could be sent",
                "the runtime tries the call again; is the API server slow?");
  }
  if (self->result) return *std::move(self->result);
  static_cast<void>(withdraw());
  return Core::Ending();
}

// NOLINTNEXTLINE(bugprone-exception-escape): an exception ends the process on purpose
void OwnBlocks::SendBatch(const StatePointer& state, SteadyTime deadline) noexcept {
  Lock lock(mutex_);
  const std::string block = state->view->name;
  const SignalsPointer signals = SignalsOf(block);
  // Callers that were just answered often call again soon. The sender waits for them for a quarter of a patch's time
  // (at most 50 ms), which saves a patch. A single caller does not wait.
  const auto patience =
      std::min<std::chrono::steady_clock::duration>(state->patch_latency / kGatherPart, agent_core::kGatherMax);
  const auto end = std::min(deadline, std::chrono::steady_clock::now() + patience);
  signals->arrived.wait_until(lock.native(), end, [&]() BERTH_REQUIRES(mutex_) {
    return agent_core::CountCallers(state->queue) >= signals->expected || core_.stopped();
  });
  core_.Begin(*state, deadline);
  const std::size_t callers = agent_core::CountCallers(state->rounds.front().changes);
  News news;
  while (true) {
    const agent_core::Step step = core_.Next(*state, TimeNow(), news);
    Deliver(lock, std::exchange(news, {}));
    if (std::holds_alternative<agent_core::Done>(step)) break;
    lock.unlock();
    const Now asked = TimeNow();
    const Expected<BlockView> answer = Perform(block, step);
    if (!answer) observer_.NoteFailedRequest(answer.error());
    lock.lock();
    core_.Answer(*state, answer, asked, TimeNow(), news);
  }
  const BlockView observed = Core::End(*state);
  signals->expected = callers + agent_core::CountCallers(state->queue);
  signals->idle.notify_all();
  WakeNext(*state);
  lock.unlock();
  if (observed != nullptr) Learn(state, observed);
}

ChangeId OwnBlocks::SenderOf(const BlockState& state) {
  const PendingChange* sender = nullptr;
  for (const PendingChange& one : state.queue) {
    if (one.has_caller && (sender == nullptr || one.deadline > sender->deadline)) sender = &one;
  }
  return sender == nullptr ? 0 : sender->id;
}

void OwnBlocks::WakeNext(const BlockState& state) {
  if (const ChangeId sender = SenderOf(state)) {
    waiters_.at(sender)->changed.notify_one();
  } else if (!state.queue.empty()) {
    flusher_wakeup_.notify_one();
  }
}

void OwnBlocks::EditDeferred(const BlockView& seen, const ipam::Change& change, const EditDone& done) {
  Lock lock(mutex_);
  const StatePointer state = core_.Find(seen->name);
  if (core_.stopped() || state == nullptr) {
    const Expected<BlockView> failed = core_.stopped() ? Core::Ending() : IsGone(seen->name);
    lock.unlock();
    done(failed);
    return;
  }
  const Now now = TimeNow();
  const auto linger = Core::LingerOf(*state);
  const ChangeId id = core_.SubmitDeferred(*state, change, linger, now);
  waiters_[id] = std::make_shared<Waiter>(done);
  // If RunFlusher wakes by itself before the change is due, it needs no signal.
  if (now.steady + linger < flusher_wakes_) flusher_wakeup_.notify_one();
}

void OwnBlocks::RunFlusher() {
  Lock lock(mutex_);
  while (!core_.stopped()) {
    StatePointer first;
    SteadyTime due = SteadyTime::max();
    for (const auto& [name, state] : core_.blocks()) {
      // Skip a block that another thread sends: that thread wakes this thread if changes are left.
      if (state->is_sending || Core::DueOf(*state) >= due) continue;
      due = Core::DueOf(*state);
      first = state;
    }
    flusher_wakes_ = due;
    if (first == nullptr) {
      flusher_wakeup_.wait(lock.native());
    } else if (due > std::chrono::steady_clock::now()) {
      flusher_wakeup_.wait_until(lock.native(), due);
    } else {
      flusher_wakes_ = SteadyTime::min();
      first->is_sending = true;
      lock.unlock();
      // A deferred change may have waited for long, so it gets the full time limit of a request. A request that is cut
      // short would be in doubt, and would make a slow API server slower.
      SendBatch(first, std::chrono::steady_clock::now() + kRequestMax);
      lock.lock();
    }
  }
  Deliver(lock, core_.EndDeferred());
}

void OwnBlocks::AwaitDeferred(SteadyTime deadline) {
  Lock lock(mutex_);
  no_deferred_left_.wait_until(lock.native(), deadline, [this]() BERTH_REQUIRES(mutex_) {
    return core_.stopped() || (delivering_ == 0 && !core_.HasDeferred());
  });
}

BlockView OwnBlocks::HandOut(const BlockView& seen, const ipam::Change& change) noexcept {
  const Lock lock(mutex_);
  const StatePointer state = core_.Find(seen->name);
  if (state == nullptr) return nullptr;
  const auto given = core_.HandOut(*state, change, TimeNow());
  if (!given) return nullptr;
  if (given->due && *given->due < flusher_wakes_) flusher_wakeup_.notify_one();
  const auto offset = ipam::Find(*given->block, change.attachment);
  BERTH_CHECK(offset.has_value());
  // Store the note under the lock: no patch can carry the address meanwhile, so UndoHandOut can still take it back.
  const auto noted = notes_->NoteHandedOut({.attachment = change.attachment,
                                            .block = given->block->name,
                                            .uid = given->block->uid,
                                            .offset = *offset,
                                            .entry = given->block->allocations.at(*offset)});
  if (!noted) {
    Core::UndoHandOut(*state, given->id);
    spdlog::warn(
        "an ADD waits for its patch, because the agent cannot store the note of an address block={} err=\"{}\"",
        given->block->name,
        noted.error().message);
    return nullptr;
  }
  ForgetNoteOnceSettled(given->id, change.attachment, given->block->name);
  return given->block;
}

void OwnBlocks::ForgetNoteOnceSettled(ChangeId id, const ipam::Attachment& attachment, const std::string& block) {
  waiters_[id] =
      std::make_shared<Waiter>([this, attachment, block](const auto&) { Notes()->ForgetHandedOut(attachment, block); });
}

std::set<ipam::Attachment> OwnBlocks::HandedOut() const {
  std::set<ipam::Attachment> attachments;
  const Lock lock(mutex_);
  for (const auto& [name, state] : core_.blocks()) {
    for (const auto& [offset, one] : state->handed_out) attachments.insert(one.attachment);
  }
  attachments.erase("");
  return attachments;
}

std::shared_ptr<const node::NodeDirectory> OwnBlocks::Notes() const {
  const Lock lock(mutex_);
  return notes_;
}

Expected<void> OwnBlocks::MoveNotesTo(node::NodeDirectory directory) {
  const Lock lock(mutex_);
  notes_ = std::make_shared<const node::NodeDirectory>(std::move(directory));
  for (const auto& [name, state] : core_.blocks()) {
    for (const auto& [offset, one] : state->handed_out) {
      if (one.is_set_aside()) continue;
      auto noted = notes_->NoteHandedOut({.attachment = one.attachment,
                                          .block = state->view->name,
                                          .uid = state->view->uid,
                                          .offset = offset,
                                          .entry = one.entry});
      if (!noted) return noted;
    }
  }
  return {};
}

std::vector<BlockView> OwnBlocks::ForUpkeep() const {
  std::vector<BlockView> views;
  const SteadyTime now = TimeNow().steady;
  const Lock lock(mutex_);
  for (const auto& [name, state] : core_.blocks()) {
    if (!state->upkeep_pause.IsOn(now)) views.push_back(agent_core::Shown(*state));
  }
  return views;
}

std::set<ipam::Attachment> OwnBlocks::InDoubtInPaused() const {
  std::set<ipam::Attachment> attachments;
  const SteadyTime now = TimeNow().steady;
  const Lock lock(mutex_);
  for (const auto& [name, state] : core_.blocks()) {
    if (state->upkeep_pause.IsOn(now)) attachments.insert(state->in_doubt.begin(), state->in_doubt.end());
  }
  return attachments;
}

void OwnBlocks::WriteHandedOut() {
  const Lock lock(mutex_);
  if (!core_.WriteWhatIsLeft(TimeNow()).empty()) flusher_wakeup_.notify_one();
}

std::vector<ipam::OpenIntent> OwnBlocks::InDoubt(const ipam::Attachment& attachment) const {
  std::vector<ipam::OpenIntent> intents;
  const Lock lock(mutex_);
  for (const auto& [name, state] : core_.blocks()) {
    if (!agent_core::IsInDoubt(*state, attachment)) continue;
    intents.push_back({.id = name, .attachment = attachment, .block = *state->view});
  }
  return intents;
}

void OwnBlocks::CloseIntent(const ipam::OpenIntent& intent) {
  const Lock lock(mutex_);
  if (const StatePointer state = core_.Find(intent.id)) Core::CloseDoubt(*state, intent.attachment);
}

void OwnBlocks::Stop() {
  const Lock lock(mutex_);
  core_.Stop();
  for (const auto& [id, waiter] : waiters_) waiter->changed.notify_one();
  for (const auto& [block, signals] : signals_) {
    signals->arrived.notify_all();
    signals->idle.notify_all();
  }
  flusher_wakeup_.notify_all();
  no_deferred_left_.notify_all();
}

bool OwnBlocks::stopped() const {
  const Lock lock(mutex_);
  return core_.stopped();
}

}  // namespace berth::agent
