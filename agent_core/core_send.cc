// SPDX-License-Identifier: Apache-2.0
// Group commit: makes one patch of the waiting changes, and derives the outcome of each change from the answer.
#include <algorithm>
#include <iterator>
#include <utility>

#include "agent_core/core.h"
#include "base/check.h"

namespace berth::agent_core {

using ipam::BlockView;

namespace {

constexpr int kConflictsMax = 50;

Error GoneError(const std::string& block) {
  return {.code = ErrorCode::kNotFound, .message = "block " + block + " is gone"};
}

}  // namespace

void Core::Begin(BlockState& state, SteadyTime deadline) {
  BERTH_CHECK(state.is_sending && state.rounds.empty());
  const CheckAtEnd check(state);
  Round round{.changes = {}, .deadline = deadline};
  std::deque<PendingChange> later;
  // The batch ends at the sender's deadline. Callers with more time wait for the next batch.
  for (PendingChange& one : state.queue) {
    const bool has_more = one.has_caller && one.deadline > deadline + kGatherMax;
    if (has_more) {
      later.push_back(std::move(one));
    } else {
      round.changes.push_back(std::move(one));
    }
  }
  state.queue = std::move(later);
  state.rounds.push_back(std::move(round));
}

Step Core::Next(BlockState& state, const Now& now, News& news) {
  const CheckAtEnd check(state);
  while (!state.rounds.empty()) {
    Round& round = state.rounds.front();
    if (round.changes.empty()) {
      EndRound(state);
      continue;
    }
    if (auto step = NextOf(state, round, now, news)) return *std::move(step);
  }
  return Done{};
}

void Core::EndRound(BlockState& state) {
  const Round round = std::move(state.rounds.front());
  state.rounds.pop_front();
  state.attachments_in_flight.clear();
  state.leaving.clear();
  if (!round.is_alone || round.only) return;
  // The API server refused a patch with handed-out entries, maybe because of one of them: send each handed-out entry
  // with a patch of its own.
  std::deque<Round> apart;
  for (const auto& [offset, one] : state.handed_out) {
    if (one.is_set_aside()) continue;
    apart.push_back({.changes = {PendingChange{.change = {}, .deadline = round.deadline}},
                     .deadline = round.deadline,
                     .is_alone = true,
                     .only = offset});
  }
  state.rounds.insert(
      state.rounds.begin(), std::make_move_iterator(apart.begin()), std::make_move_iterator(apart.end()));
}

std::optional<Step> Core::NextOf(BlockState& state, Round& round, const Now& now, News& news) {
  for (const PendingChange& one : round.changes) state.attachments_in_flight.insert(one.change.attachment);
  if (round.awaits == Round::Awaits::kConflictRead) return Read{round.deadline};
  if (state.doubt_version && !round.is_settled) {
    // Read whether the block has a newer version.
    round.awaits = Round::Awaits::kSettlingRead;
    return Read{round.deadline};
  }
  if (stopped_) {
    FinishAll(state, round, Ending(), news);
    return std::nullopt;
  }
  if (auto contested = Contested(state)) {
    FinishAll(state, round, std::unexpected(*std::move(contested)), news);
    return std::nullopt;
  }
  // A change with `fence` needs no extra patch if no write is in doubt: then no older write can land.
  const bool has_to_fence = state.doubt_version || state.must_fence;
  Plan plan = PlanPatch(
      state,
      round,
      {.standby = KeepsStandby() ? options_.standby : 0, .agent = has_to_fence ? NextFence() : std::string()});
  for (auto& [one, error] : plan.refused) {
    Finish(one, std::unexpected(AsUnknownIfInDoubt(state, round, std::move(error))), news);
  }
  round.changes = std::move(plan.applied);
  round.carried = plan.carried;
  state.standby_plan = std::move(plan.standby_plan);
  state.leaving = plan.leaving;
  state.attachments_in_flight.merge(plan.touched);
  for (const ipam::BlockOffset offset : plan.given_back) state.to_restore.at(offset).wanted.clear();
  round.before = plan.before;
  round.after = std::move(plan.after);
  round.fences = has_to_fence;
  if (round.changes.empty()) return std::nullopt;
  if (round.after == *round.before) {
    SettleHandedOut(state, round, news);
    FinishAll(state, round, round.before, news);
    return std::nullopt;
  }
  news.reports.push_back({.kind = Report::Kind::kBatch, .block = round.after.name, .count = round.changes.size()});
  round.awaits = Round::Awaits::kWrite;
  round.is_settled = false;
  // If the last proof is 30 s (kProofEvery) old, the patch asks for the whole block, which shows whether the API server
  // keeps `standby`.
  round.asks_for_all = !round.after.standby.empty() && IsProofDue(now);
  return Write{
      .before = round.before, .after = round.after, .asks_for_all = round.asks_for_all, .deadline = round.deadline};
}

void Core::Answer(BlockState& state, const Expected<BlockView>& answer, const Now& asked, const Now& now, News& news) {
  const CheckAtEnd check(state);
  Round& round = state.rounds.front();
  round.asked = asked;
  switch (std::exchange(round.awaits, Round::Awaits::kNothing)) {
    case Round::Awaits::kNothing:
      BERTH_CHECK(false);
      break;
    case Round::Awaits::kSettlingRead:
      AfterSettlingRead(state, round, answer, now, news);
      break;
    case Round::Awaits::kWrite:
      AfterWrite(state, round, answer, now, news);
      break;
    case Round::Awaits::kConflictRead:
      AfterConflictRead(state, round, answer, now, news);
      break;
  }
}

void Core::AfterSettlingRead(BlockState& state, Round& round, const Expected<BlockView>& read, const Now& now,
                             News& news) {
  const std::string name = state.view->name;
  if (read) {
    round.is_settled = true;
    if (!Adopt(state, *read, now, news)) FinishAll(state, round, std::unexpected(GoneError(name)), news);
    return;
  }
  // Pause the upkeep, because the API server may answer no request for hours.
  state.upkeep_pause.AfterFailure(now.steady);
  if (read.error().code == ErrorCode::kNotFound) Forget(state, news);
  FinishAll(state, round, read, news);
}

void Core::AfterWrite(BlockState& state, Round& round, const Expected<BlockView>& written, const Now& now, News& news) {
  if (!written) return AfterFailure(state, round, written.error(), now, news);
  if (round.asks_for_all) TakeProof(round.asked.since_boot, (*written)->standby == round.after.standby, now, news);
  if (VersionOf(**written) > VersionOf(*state.view)) state.view = *written;
  state.to_restore.clear();
  state.doubt_version.reset();
  state.in_doubt.clear();
  state.is_failing = false;
  state.proved = round.asked.since_boot;
  // Only a patch with a fence ends must_fence. If must_fence was set while a patch was under way, one more patch is
  // needed.
  if (round.fences) {
    if (state.must_fence && state.foreign_agent) state.foreign_agent->met = now.since_boot;
    state.must_fence = false;
  }
  const auto latency = now.steady - round.asked.steady;
  state.patch_latency = state.patch_latency.count() == 0 ? latency : (3 * state.patch_latency + latency) / 4;
  SettleHandedOut(state, round, news);
  FinishAll(state, round, *written, news);
}

void Core::AfterFailure(BlockState& state, Round& round, const Error& error, const Now& now, News& news) {
  const std::string name = round.before->name;
  switch (error.code) {
    case ErrorCode::kConflict:
      news.reports.push_back({.kind = Report::Kind::kConflict, .block = name});
      round.conflict = error;
      round.awaits = Round::Awaits::kConflictRead;
      return;
    case ErrorCode::kNotFound:
      state.is_failing = true;
      Forget(state, news);
      return FinishAll(state, round, std::unexpected(error), news);
    case ErrorCode::kUnknownOutcome: {
      const bool is_first = !std::exchange(round.is_in_doubt, true) && !state.doubt_version;
      state.is_failing = true;
      state.doubt_version = round.before->resource_version;
      state.in_doubt.insert(state.attachments_in_flight.begin(), state.attachments_in_flight.end());
      news.reports.push_back({.kind = Report::Kind::kInDoubt, .block = name, .error = error});
      // Usually one connection was cut: read the block, and write once more. If the second answer is lost, too, give
      // up: otherwise the agent would send write after write, without a pause, to an API server that answers none.
      if (is_first) return;
      state.upkeep_pause.AfterFailure(now.steady);
      return FinishAll(state, round, std::unexpected(error), news);
    }
    case ErrorCode::kInvalid:
      state.is_failing = true;
      return AfterRefusal(state, round, error, now, news);
    default:
      state.is_failing = true;
      return FinishAll(state, round, std::unexpected(error), news);
  }
}

// The API server has checked the content: a schema, a rule or a policy refuses it.
void Core::AfterRefusal(BlockState& state, Round& round, const Error& error, const Now& now, News& news) {
  // Pause the upkeep only if the API server refuses changes of the upkeep: otherwise one DEL that is refused for ever
  // would delay the upkeep for ever.
  const auto is_upkeep = [](const PendingChange& one) {
    return std::holds_alternative<ipam::NoChange>(one.change.what) ||
           std::holds_alternative<ipam::SweepCooled>(one.change.what);
  };
  if (std::ranges::all_of(round.changes, is_upkeep)) state.upkeep_pause.AfterFailure(now.steady);
  if (round.only) {
    const auto one = state.handed_out.find(*round.only);
    if (one != state.handed_out.end()) {
      one->second.is_refused = true;
      news.reports.push_back({.kind = Report::Kind::kHandedOutRefused,
                              .block = state.view->name,
                              .text = one->second.entry,
                              .error = error});
    }
  }
  if (round.changes.size() == 1 && !round.carried.empty() && !round.is_alone) {
    // The API server refuses the change or a handed-out entry: try the change alone.
    round.is_alone = true;
    return;
  }
  if (round.changes.size() == 1) return FinishAll(state, round, std::unexpected(error), news);
  // The API server refuses at least one of the changes: send the halves one by one, until a refused change is alone.
  const auto middle = round.changes.begin() + static_cast<std::ptrdiff_t>(round.changes.size() / 2);
  Round first{.changes = {round.changes.begin(), middle}, .deadline = round.deadline, .is_in_doubt = round.is_in_doubt};
  Round second{.changes = {middle, round.changes.end()}, .deadline = round.deadline, .is_in_doubt = round.is_in_doubt};
  state.attachments_in_flight.clear();
  state.rounds.pop_front();
  state.rounds.push_front(std::move(second));
  state.rounds.push_front(std::move(first));
}

void Core::AfterConflictRead(BlockState& state, Round& round, const Expected<BlockView>& read, const Now& now,
                             News& news) {
  const std::string name = round.before->name;
  if (!read) {
    state.is_failing = true;
    if (read.error().code == ErrorCode::kNotFound) Forget(state, news);
    return FinishAll(state, round, read, news);
  }
  if (VersionOf(**read) <= VersionOf(*round.before)) {
    // No newer version explains the conflict, and a retry would meet it again.
    const Error went_back = GoBack(state, *read, now, news);
    return FinishAll(state, round, std::unexpected(went_back), news);
  }
  if (!Adopt(state, *read, now, news)) return FinishAll(state, round, std::unexpected(GoneError(name)), news);
  if (++round.conflicts >= kConflictsMax) FinishAll(state, round, std::unexpected(round.conflict), news);
}

Error Core::GoBack(BlockState& state, const BlockView& seen, const Now& now, News& news) {
  const bool is_same = state.view->uid == seen->uid && seen->node == options_.self.node;
  if (is_same && VersionOf(*seen) < VersionOf(*state.view)) See(state, seen, now, news);
  // Drop `observed`, because it may be a version from before the restore. If it is a newer version, the fence meets a
  // conflict, and the core then reads the block.
  state.observed = nullptr;
  // The data of the other blocks may be old, too: for each block a fence has to succeed before the core hands out an
  // address.
  for (const auto& [name, other] : blocks_) Distrust(*other);
  if (!is_same) Forget(state, news);
  news.reports.push_back({.kind = Report::Kind::kWentBack, .block = seen->name});
  return {.code = ErrorCode::kUnavailable,
          .message = "the API server has an older version of block " + seen->name + " than it had before",
          .details = "was the API server restored from a backup? The runtime tries the call again"};
}

BlockView Core::End(BlockState& state) {
  BERTH_CHECK(state.rounds.empty());
  const CheckAtEnd check(state);
  state.is_sending = false;
  return std::exchange(state.observed, nullptr);
}

void Core::SettleHandedOut(BlockState& state, const Round& round, News& news) {
  for (const ipam::BlockOffset offset : round.carried) {
    const auto found = state.handed_out.find(offset);
    if (found == state.handed_out.end()) continue;  // the block was forgotten while the patch was under way
    const HandedOut& one = found->second;
    // If the attachment's entry is not at the address, another writer wrote another entry there, or moved the
    // attachment's entry to another address. But if a DEL gave the address back, the entry is missing on purpose.
    const bool is_in = ipam::AttachmentOf(TextAt(*state.view, offset)) == one.attachment;
    if (!one.is_set_aside() && !is_in && !IsGivenBack(state, one.attachment)) {
      news.reports.push_back({.kind = Report::Kind::kHandedOutLost, .block = state.view->name, .text = one.entry});
    }
    if (one.id != 0) news.settled.push_back(one.id);
    state.handed_out.erase(found);
  }
}

Error Core::AsUnknownIfInDoubt(const BlockState& state, const Round& round, Error error) const {
  if (round.is_in_doubt && IsKnown(state)) error.code = ErrorCode::kUnknownOutcome;
  return error;
}

void Core::FinishAll(const BlockState& state, Round& round, const Expected<BlockView>& result, News& news) {
  const Expected<BlockView> told = result ? result : std::unexpected(AsUnknownIfInDoubt(state, round, result.error()));
  // Changes with callers come first.
  std::ranges::stable_partition(round.changes, [](const PendingChange& one) { return one.has_caller; });
  for (const PendingChange& one : round.changes) Finish(one, told, news);
  round.changes.clear();
}

void Core::Finish(const PendingChange& change, Expected<BlockView> result, News& news) {
  if (!change.has_caller) --deferred_count_;
  if (change.id != 0) news.outcomes.push_back({.id = change.id, .result = std::move(result)});
}

}  // namespace berth::agent_core
