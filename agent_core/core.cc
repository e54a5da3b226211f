// SPDX-License-Identifier: Apache-2.0
// Core: adds and forgets blocks, queues changes, and hands out addresses before they are written (docs/adr/0008).
#include "agent_core/core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace berth::agent_core {

using ipam::BlockView;

std::unexpected<Error> Core::Ending() {
  return Fail(ErrorCode::kUnavailable,
              "this agent is shutting down, or another agent has replaced it",
              "the runtime tries the call again");
}

Core::StatePointer Core::Find(const std::string& name) const {
  const auto found = blocks_.find(name);
  return found == blocks_.end() ? nullptr : found->second;
}

void Core::Insert(const BlockView& written, const BlockView& before, const Now& now, News& news) {
  // Adopt `before` first: if this agent has fenced the known block, `written` names this agent in `agent`, and only
  // `before` says who wrote the entries. If a new block of the same name has replaced the known block, Adopt forgets
  // the known block.
  if (const StatePointer known = Find(written->name)) {
    if (Adopt(*known, before, now, news)) Adopt(*known, written, now, news);
  }
  ++generation_;
  StatePointer& state = blocks_[written->name];
  if (state != nullptr) return;
  state = std::make_shared<BlockState>();
  state->added_generation = generation_;
  state->view = written;
  const CheckAtEnd check(*state);
  if (IsOfAnotherMachine(*before, options_.self.instance)) MeetForeignAgent(*state, *before, ipam::Block{}, now);
  state->must_fence = false;
  Noticed noticed;
  for (const auto& [offset, text] : written->allocations) {
    const auto in_use = StillInUse(text, options_.self, noticed);
    if (!in_use) continue;
    state->to_restore[offset] = {.found = text, .wanted = *in_use};
    news.reports.push_back({.kind = Report::Kind::kStillInUse, .block = written->name, .text = *in_use});
  }
  for (const std::string& text : noticed.freed) {
    news.reports.push_back({.kind = Report::Kind::kFreedRightly, .block = written->name, .text = text});
  }
}

ChangeId Core::Submit(BlockState& state, const ipam::Change& change, SteadyTime deadline) {
  const CheckAtEnd check(state);
  state.queue.push_back({.id = ++last_id_, .change = change, .deadline = deadline});
  return last_id_;
}

ChangeId Core::SubmitDeferred(BlockState& state, const ipam::Change& change, std::chrono::milliseconds linger,
                              const Now& now) {
  const CheckAtEnd check(state);
  state.queue.push_back({.id = ++last_id_, .change = change, .has_caller = false, .due = now.steady + linger});
  ++deferred_count_;
  return last_id_;
}

bool Core::Withdraw(BlockState& state, ChangeId id) {
  const CheckAtEnd check(state);
  return std::erase_if(state.queue, [id](const PendingChange& one) { return one.id == id; }) > 0;
}

std::chrono::milliseconds Core::LingerOf(const BlockState& state) {
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(state.patch_latency), kLinger, kLingerMax);
}

Trust Core::TrustIn(const BlockState& state, const Now& now) const {
  const auto is_refused = [](const auto& one) { return one.second.is_refused; };
  if (!KeepsStandby() || state.view->deleting || state.is_contested() ||
      std::ranges::any_of(state.handed_out, is_refused)) {
    return Trust::kOff;
  }
  if (IsProofLate(now) || state.proved < lapse_ended_) return Trust::kLapsed;
  return state.is_failing || state.must_fence || state.doubt_version ? Trust::kMustWrite : Trust::kGives;
}

ipam::OffsetSet Core::MayGive(const BlockState& state, const Now& now) const {
  if (TrustIn(state, now) != Trust::kGives) return {};
  ipam::OffsetSet offsets = state.view->standby;
  ipam::EraseIf(offsets, [&state](ipam::BlockOffset offset) {
    return state.handed_out.contains(offset) || state.leaving.contains(offset);
  });
  return offsets;
}

std::optional<Core::Given> Core::HandOut(BlockState& state, const ipam::Change& change, const Now& now) {
  if (stopped_) return std::nullopt;
  const CheckAtEnd check(state);
  const ipam::OffsetSet among = MayGive(state, now);
  const auto is_its = [&change](const auto& one) { return one.second.attachment == change.attachment; };
  if (among.empty() || std::ranges::any_of(state.handed_out, is_its)) return std::nullopt;
  ipam::Block block = *Shown(state);
  if (ipam::Find(block, change.attachment) || !ipam::ApplyOnStandby(change, block, among)) return std::nullopt;
  const auto offset = ipam::Find(block, change.attachment);
  BERTH_CHECK(offset.has_value());
  const ChangeId id = ++last_id_;
  state.handed_out[*offset] = {
      .id = id, .attachment = change.attachment, .entry = block.allocations.at(*offset), .is_refused = false};
  // One deferred change writes all handed-out addresses. A second one is needed only if it has to be sent sooner.
  const bool is_running_low = among.size() * 2 <= state.view->standby.size();
  const auto linger = is_running_low ? kSendNow : LingerOf(state);
  const auto is_in_time = [due = now.steady + linger](const PendingChange& one) {
    return !one.has_caller && one.change.standby && one.due <= due;
  };
  Given given{.id = id, .block = std::make_shared<const ipam::Block>(std::move(block))};
  if (std::ranges::none_of(state.queue, is_in_time)) {
    SubmitDeferred(state, {.standby = change.standby}, linger, now);
    given.due = now.steady + linger;
  }
  return given;
}

ChangeId Core::Resume(const std::string& block_uid, ipam::BlockOffset offset, HandedOut handed_out,
                      const std::string& block, News& news) {
  const StatePointer state = Find(block);
  const bool is_lost = state == nullptr || state->view->uid != block_uid || offset >= state->view->size();
  if (is_lost) {
    news.reports.push_back({.kind = Report::Kind::kHandedOutLost, .block = block, .text = handed_out.entry});
    return 0;
  }
  const auto is_its = [&handed_out](const auto& one) { return one.second.attachment == handed_out.attachment; };
  const auto known = std::ranges::find_if(state->handed_out, is_its);
  if (known != state->handed_out.end()) return known->second.id;
  if (ipam::Find(*state->view, handed_out.attachment)) return 0;
  handed_out.id = ++last_id_;
  const CheckAtEnd check(*state);
  state->handed_out[offset] = std::move(handed_out);
  return last_id_;
}

News Core::EndDeferred() {
  News news;
  const auto is_deferred = [](const PendingChange& one) { return !one.has_caller; };
  for (const auto& [name, state] : blocks_) {
    const CheckAtEnd check(*state);
    for (const PendingChange& one : state->queue) {
      if (is_deferred(one)) Finish(one, Ending(), news);
    }
    std::erase_if(state->queue, is_deferred);
  }
  return news;
}

SteadyTime Core::DueOf(const BlockState& state) {
  SteadyTime due = SteadyTime::max();
  for (const PendingChange& one : state.queue) {
    if (!one.has_caller) due = std::min(due, one.due);
  }
  return due;
}

bool Core::HasToWrite(const BlockState& state) const {
  return !stopped_ && (!state.to_restore.empty() || state.must_fence);
}

std::vector<ChangeId> Core::WriteWhatIsLeft(const Now& now) {
  std::vector<ChangeId> ids;
  for (const auto& [name, state] : blocks_) {
    const CheckAtEnd check(*state);
    if (!state->is_sending) PartFromForeignAgent(*state, options_.self, now);
    const bool has_some = !state->handed_out.empty() || !state->to_restore.empty() || state->must_fence;
    if (state->upkeep_pause.IsOn(now.steady)) continue;
    if (stopped_ || !has_some || state->is_sending || !state->queue.empty() || state->is_contested()) continue;
    for (auto& [offset, one] : state->handed_out) one.is_refused = one.is_set_aside();
    ids.push_back(SubmitDeferred(*state, {}, kSendNow, now));
  }
  return ids;
}

bool Core::IsProofDue(const Now& now) const { return !drops_standby_ && now.since_boot >= proof_due_; }

// After 60 s without a proof, the controller may have counted the node as gone, and other nodes may have its addresses.
bool Core::IsProofLate(const Now& now) const { return now.since_boot >= proof_due_ + kProofEvery; }

void Core::TakeProof(std::chrono::nanoseconds asked, bool is_kept, const Now& now, News& news) {
  // Before the first proof, the core hands out no address on standby (IsProofLate), so the first proof ends no lapse.
  if (proof_due_ != std::chrono::nanoseconds::min() && IsProofLate(now)) lapse_ended_ = asked;
  proof_due_ = asked + kProofEvery;
  if (!is_kept && !std::exchange(drops_standby_, true))
    news.reports.push_back({.kind = Report::Kind::kStandbyNotKept, .block = {}});
}

bool Core::IsKnown(const BlockState& state) const { return Find(state.view->name).get() == &state; }

std::optional<Error> Core::Contested(const BlockState& state) const {
  if (!state.foreign_agent || !state.is_contested()) return std::nullopt;
  return Error{.code = ErrorCode::kUnavailable,
               .message = "agents " + std::string(InstanceOf(state.foreign_agent->agent)) + " and " +
                          options_.self.instance + " both write block " + state.view->name + " of node " +
                          options_.self.node,
               .details = "do two machines have this name? Each node needs a name of its own"};
}

bool Core::Adopt(BlockState& state, const BlockView& seen, const Now& now, News& news) {
  if (VersionOf(*seen) <= VersionOf(*state.view)) return true;
  const bool is_same = state.view->uid == seen->uid && seen->node == options_.self.node;
  if (!is_same) {
    Forget(state, news);
    return false;
  }
  const CheckAtEnd check(state);
  See(state, seen, now, news);
  state.in_doubt.clear();
  if (IsForeign(*seen, options_.self.instance) && !stopped_) {
    news.reports.push_back({.kind = Report::Kind::kMetAnother, .block = seen->name, .text = seen->agent});
  }
  return true;
}

void Core::KeepUntilEnd(BlockState& state, const BlockView& seen) {
  const CheckAtEnd check(state);
  if (state.observed == nullptr || VersionOf(*seen) > VersionOf(*state.observed)) state.observed = seen;
}

void Core::See(BlockState& state, const BlockView& seen, const Now& now, News& news) {
  const BlockView before = std::exchange(state.view, seen);
  ipam::Block expected = *before;
  RestoreEntries(state, expected);
  // `seen` is not the version that the write in doubt names: that write has landed, or can never land.
  state.doubt_version.reset();
  if (IsForeign(*seen, options_.self.instance)) MeetForeignAgent(state, *seen, expected, now);
  Comparison result = Compare(state, expected, *seen, options_.self);
  state.to_restore = std::move(result.to_restore);
  const auto report = [&](Report::Kind kind, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) news.reports.push_back({.kind = kind, .block = seen->name, .text = text});
  };
  report(Report::Kind::kVanished, result.noticed.vanished);
  report(Report::Kind::kStillInUse, result.noticed.in_use);
  report(Report::Kind::kFreedRightly, result.noticed.freed);
}

void Core::Forget(BlockState& state, News& news) {
  if (!IsKnown(state)) return;
  std::erase_if(state.handed_out, [](const auto& one) { return one.second.is_set_aside(); });
  // The controller deletes only empty blocks. If a block with entries is gone, somebody deleted it by force, or the API
  // server lost it.
  const BlockView shown = Shown(state);
  for (const auto& [offset, entry] : shown->allocations) {
    if (ipam::AttachmentOf(entry).empty()) continue;
    news.reports.push_back({.kind = Report::Kind::kHandedOutLost, .block = state.view->name, .text = entry});
  }
  for (const auto& [offset, one] : std::exchange(state.handed_out, {})) news.settled.push_back(one.id);
  const auto is_deferred = [](const PendingChange& one) { return !one.has_caller; };
  for (const PendingChange& one : state.queue) {
    if (is_deferred(one)) Finish(one, Fail(ErrorCode::kNotFound, "block " + state.view->name + " is gone"), news);
  }
  std::erase_if(state.queue, is_deferred);
  ++generation_;
  blocks_.erase(std::string(state.view->name));  // last: `blocks_` may have the only pointer to `state`
}

}  // namespace berth::agent_core
