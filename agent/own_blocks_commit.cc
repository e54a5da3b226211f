// SPDX-License-Identifier: Apache-2.0
// Group commit: from the waiting changes to one patch, and what its answer means to each.
#include <algorithm>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "agent/own_blocks.h"
#include "agent/own_blocks_slot.h"
#include "base/mutex.h"
#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/verbs.h"

namespace berth::agent {

using ipam::BlockView;
using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds kSettlePause{50};
constexpr int kConflictsMax = 50;
// From one proof that `standby` is kept to the next.
constexpr std::chrono::seconds kProofEvery{30};

Expected<BlockView> ToView(Expected<ipam::Block> block) {
  if (!block) return std::unexpected(block.error());
  return std::make_shared<const ipam::Block>(*std::move(block));
}

Expected<BlockView> ToView(const Expected<json>& object) {
  if (!object) return std::unexpected(object.error());
  return ToView(crds::ParseBlock(*object));
}

std::string BlockPath(std::string_view name) { return std::string(crds::kBlocksPath) + k8sclient::Path({name}); }

k8sclient::CallOptions Until(SteadyTime deadline) {
  return {.deadline = std::min(deadline, std::chrono::steady_clock::now() + kRequestMax), .stop = {}};
}

}  // namespace

Expected<BlockView> OwnBlocks::Read(const std::string& name, SteadyTime deadline) {
  const auto object = k8sclient::Get(api_, BlockPath(name), Until(deadline));
  if (!object) return std::unexpected(object.error().Within("get ipblock " + name));
  auto block = ToView(object);
  // Somebody made it what cannot be understood: it is left alone, and an ADD goes to another.
  if (!block) block.error().code = ErrorCode::kConflict;
  return block;
}

Expected<BlockView> OwnBlocks::Patch(const ipam::Block& before, const ipam::Block& after,
                                     std::chrono::nanoseconds asked, SteadyTime deadline) {
  // Now and then the whole block is asked for, to see what became of `standby`.
  const bool asks_for_all = !after.standby.empty() && IsProofDue();
  const auto answer = k8sclient::MergePatch(api_,
                                            BlockPath(before.name),
                                            crds::BlockMergePatch(before, after),
                                            Until(deadline),
                                            asks_for_all ? k8sclient::kJson : k8sclient::kPartialMetadata);
  if (!answer) return std::unexpected(answer.error().Within("patch ipblock " + before.name));
  if (!asks_for_all) return ToView(crds::BlockAfterPatch(after, *answer));
  auto written = ToView(answer);
  if (!written) return written;
  TakeProof(asked, (*written)->standby == after.standby);
  return written;
}

bool OwnBlocks::IsProofDue() const { return !drops_standby_ && clock_.SinceBoot() >= proof_due_.load(); }

bool OwnBlocks::IsProofLate() const { return clock_.SinceBoot() >= proof_due_.load() + kProofEvery; }

void OwnBlocks::TakeProof(std::chrono::nanoseconds asked, bool is_kept) {
  // Before the first one there is nothing on standby.
  if (proof_due_.load() != std::chrono::nanoseconds::min() && IsProofLate()) lapse_ended_ = asked;
  proof_due_ = asked + kProofEvery;
  if (!is_kept && !drops_standby_.exchange(true)) observer_.StandbyNotKept();
}

void OwnBlocks::ProveStandby(SteadyTime deadline) {
  if (!IsProofDue()) return;
  SlotPointer slot;
  BlockView block;
  {
    const Lock lock(mutex_);
    const auto stands_by = [](const auto& named) { return !named.second->view->standby.empty(); };
    const auto found = std::ranges::find_if(slots_, stands_by);
    if (found == slots_.end()) return;
    slot = found->second;
    block = slot->view;
  }
  const auto asked = clock_.SinceBoot();
  const auto read = Read(block->name, deadline);
  if (!read && read.error().code == ErrorCode::kNotFound) ObserveGone(block->name, block->uid, deadline);
  if (!read) return;
  if ((*read)->resource_version == block->resource_version) {
    {
      const Lock lock(mutex_);
      slot->proved = std::max(slot->proved, asked);
    }
    return TakeProof(asked, (*read)->standby == block->standby);
  }
  // Whoever wrote that may have changed it: the next look tells.
  ObserveRead(*read, VersionOf(*block), deadline);
}

void OwnBlocks::Commit(const SlotPointer& slot, Round round) {
  Run(slot, round);
  if (round.is_alone && !round.only) SendHandedOutApart(slot, round.deadline);
}

void OwnBlocks::Run(const SlotPointer& slot, Round& round) {
  {
    const Lock lock(mutex_);
    slot->batch.clear();
    for (const auto& waiter : round.waiters) slot->batch.insert(waiter->edit.attachment);
  }
  while (!round.waiters.empty() && !CommitOnce(slot, round)) {
  }
  const Lock lock(mutex_);
  slot->batch.clear();
  slot->leaving.clear();
}

// A patch of this block is in doubt: look whether the block has moved on. False: it could not be read, all were told.
bool OwnBlocks::Settle(const SlotPointer& slot, Round& round) {
  while (true) {
    std::string name;
    {
      const Lock lock(mutex_);
      if (!slot->doubt_version) return true;
      name = slot->view->name;
    }
    const auto read = Read(name, round.deadline);
    if (read && Adopt(slot, *read)) return true;
    if (read) {
      FinishAll(slot, round, Fail(ErrorCode::kNotFound, "block " + name + " is gone"));
      return false;
    }
    if (read.error().code == ErrorCode::kNotFound) Forget(slot);
    const bool may_try_again = round.is_in_doubt && read.error().code != ErrorCode::kNotFound && !stopped() &&
                               std::chrono::steady_clock::now() + kSettlePause < round.deadline;
    if (!may_try_again) {
      FinishAll(slot, round, std::unexpected(read.error()));
      return false;
    }
    std::this_thread::sleep_for(kSettlePause);
  }
}

// Applies every change to the newest version; those that cannot be are told so and leave the round.
ipam::Block OwnBlocks::Decide(const SlotPointer& slot, Round& round) {
  while (true) {
    if (auto changed = TryDecide(slot, round)) return *std::move(changed);
  }
}

std::optional<ipam::Block> OwnBlocks::TryDecide(const SlotPointer& slot, Round& round) {
  bool must_fence = false;
  ipam::Block changed;
  std::map<ipam::BlockOffset, Slot::HandedOut> handed_out;
  {
    const Lock lock(mutex_);
    round.base = slot->view;
    changed = *round.base;
    // Nor does edit.fence ask for more: without a doubt nothing can land.
    must_fence = slot->doubt_version.has_value() || slot->must_fence;
    PutBack(*slot, changed);
    AddHandedOut(*slot, changed);
    handed_out = slot->handed_out;
  }
  Waiters pending;
  for (const auto& waiter : round.waiters) {
    if (auto applied = waiter->edit.apply(changed)) {
      pending.push_back(waiter);
    } else {
      Finish(*waiter, std::unexpected(OfRound(slot, round, applied.error())));
    }
  }
  round.waiters = std::move(pending);
  if (must_fence) changed.agent = NextFence();
  ChooseStandby(slot, round, changed);
  // What was handed out and given back rests for one patch: until its note is gone, nobody may get another for it.
  ipam::EraseIf(changed.standby, [&handed_out](auto offset) { return handed_out.contains(offset); });
  round.handed_out = LeaveHandedOut(handed_out, round.is_alone, round.only, *round.base, changed);
  const Lock lock(mutex_);
  ipam::OffsetSet leaving;
  for (const ipam::BlockOffset offset : round.base->standby) {
    if (!changed.standby.contains(offset)) leaving.insert(offset);
  }
  const auto is_handed_out_since = [&](const auto& one) {
    return leaving.contains(one.first) && !handed_out.contains(one.first);
  };
  if (std::ranges::any_of(slot->handed_out, is_handed_out_since)) return std::nullopt;
  slot->leaving = leaving;
  for (const auto& [offset, attachment] : round.handed_out) slot->batch.insert(attachment);
  // What is taken out has not vanished, on whoever's behalf.
  for (const auto& [offset, text] : round.base->allocations) {
    const std::string_view attachment = ipam::AttachmentOf(text);
    if (!attachment.empty() && ipam::AttachmentOf(TextAt(changed, offset)) != attachment)
      slot->batch.emplace(attachment);
  }
  // Given back before it could be written again.
  for (auto& [offset, one] : slot->overwritten) {
    if (!changed.allocations.contains(offset)) one.was.clear();
  }
  return changed;
}

bool OwnBlocks::CommitOnce(const SlotPointer& slot, Round& round) {
  if (!Settle(slot, round)) return true;
  if (stopped()) {
    FinishAll(slot,
              round,
              Fail(ErrorCode::kUnavailable, "another agent has replaced this one", "the runtime tries the call again"));
    return true;
  }
  if (auto contested = Contested(*slot)) {
    FinishAll(slot, round, std::unexpected(*std::move(contested)));
    return true;
  }
  const ipam::Block changed = Decide(slot, round);
  if (round.waiters.empty()) return true;
  if (changed == *round.base) {
    SettleHandedOut(slot, round);
    FinishAll(slot, round, round.base);
    return true;
  }
  observer_.Batch(changed.name, round.waiters.size());
  const auto begin = std::chrono::steady_clock::now();
  const auto asked = clock_.SinceBoot();
  const auto written = Patch(*round.base, changed, asked, round.deadline);
  const auto took = std::chrono::steady_clock::now() - begin;
  if (!written) return AfterFailure(slot, round, written.error());
  {
    const Lock lock(mutex_);
    if (VersionOf(**written) > VersionOf(*slot->view)) slot->view = *written;
    slot->overwritten.clear();
    slot->doubt_version.reset();
    slot->in_doubt.clear();
    slot->is_failing = false;
    slot->proved = asked;
    if (std::exchange(slot->must_fence, false) && slot->stranger) slot->stranger->met = clock_.Now();
    slot->took = slot->took.count() == 0 ? took : (3 * slot->took + took) / 4;
  }
  SettleHandedOut(slot, round);
  FinishAll(slot, round, *written);
  return true;
}

// True: the round is over.
bool OwnBlocks::AfterConflict(const SlotPointer& slot, Round& round, const Error& error) {
  const std::string& name = round.base->name;
  observer_.Conflict(name);
  const auto read = Read(name, round.deadline);
  if (read && VersionOf(**read) <= VersionOf(*round.base)) {
    // Nothing explains the conflict, and nothing is to be won by trying again.
    FinishAll(slot, round, std::unexpected(GoBack(slot, *read)));
    return true;
  }
  if (read && !Adopt(slot, *read)) {
    FinishAll(slot, round, Fail(ErrorCode::kNotFound, "block " + name + " is gone"));
    return true;
  }
  if (read && ++round.conflicts < kConflictsMax) return false;
  if (!read) {
    const Lock lock(mutex_);
    slot->is_failing = true;
  }
  if (!read && read.error().code == ErrorCode::kNotFound) Forget(slot);
  FinishAll(slot, round, read ? std::unexpected(error) : read);
  return true;
}

bool OwnBlocks::AfterFailure(const SlotPointer& slot, Round& round, const Error& error) {
  const std::string& name = round.base->name;
  if (error.code != ErrorCode::kConflict) {
    const Lock lock(mutex_);
    slot->is_failing = true;
  }
  switch (error.code) {
    case ErrorCode::kConflict:
      return AfterConflict(slot, round, error);
    case ErrorCode::kNotFound:
      Forget(slot);
      FinishAll(slot, round, std::unexpected(error));
      return true;
    case ErrorCode::kUnknownOutcome: {
      {
        const Lock lock(mutex_);
        slot->doubt_version = round.base->resource_version;
        slot->in_doubt.insert(slot->batch.begin(), slot->batch.end());
      }
      observer_.InDoubt(name, error);
      // The first time at once: most often one connection was cut. Then not so fast, and not for ever.
      if (std::exchange(round.is_in_doubt, true)) {
        if (stopped() || std::chrono::steady_clock::now() + kSettlePause >= round.deadline) {
          FinishAll(slot, round, std::unexpected(error));
          return true;
        }
        std::this_thread::sleep_for(kSettlePause);
      }
      return false;
    }
    default:
      break;
  }
  // The server looked at the content: a schema, a rule or a policy refuses it.
  if (error.code == ErrorCode::kInvalid && round.only) Refuse(slot, *round.only, error);
  if (error.code == ErrorCode::kInvalid && round.waiters.size() == 1 && !round.handed_out.empty() && !round.is_alone) {
    // The change, or what was handed out and went along: the change is tried on its own.
    round.is_alone = true;
    return false;
  }
  if (error.code == ErrorCode::kInvalid && round.waiters.size() > 1) {
    // One of them is the culprit: the halves go on their own until it stands alone.
    const auto middle = round.waiters.begin() + static_cast<std::ptrdiff_t>(round.waiters.size() / 2);
    const Waiters first(round.waiters.begin(), middle);
    const Waiters second(middle, round.waiters.end());
    Commit(slot, {.waiters = first, .deadline = round.deadline, .is_in_doubt = round.is_in_doubt});
    Commit(slot, {.waiters = second, .deadline = round.deadline, .is_in_doubt = round.is_in_doubt});
    return true;
  }
  FinishAll(slot, round, std::unexpected(error));
  return true;
}

Error OwnBlocks::OfRound(const SlotPointer& slot, const Round& round, Error error) const {
  if (!round.is_in_doubt) return error;
  const Lock lock(mutex_);
  const auto found = slots_.find(slot->view->name);
  if (found != slots_.end() && found->second == slot) error.code = ErrorCode::kUnknownOutcome;
  return error;
}

void OwnBlocks::FinishAll(const SlotPointer& slot, Round& round, const Expected<BlockView>& result) {
  const Expected<BlockView> told = result ? result : std::unexpected(OfRound(slot, round, result.error()));
  // Those for whom a thread waits first.
  std::ranges::stable_partition(round.waiters, [](const auto& waiter) { return !waiter->done; });
  for (const auto& waiter : round.waiters) Finish(*waiter, told);
  round.waiters.clear();
}

void OwnBlocks::Finish(Waiter& waiter, const Expected<BlockView>& result) {
  {
    const Lock lock(mutex_);
    waiter.result = result;
  }
  // Without the mutex, which it takes first. It lives as long as its batch.
  waiter.changed.notify_one();
  if (!waiter.done) return;
  waiter.done(result);
  const Lock lock(mutex_);
  if (--late_count_ == 0) late_is_over_.notify_all();
}

}  // namespace berth::agent
