// SPDX-License-Identifier: Apache-2.0
// Addresses on standby: handed out before they are written, and written then, however often it takes (docs/adr/0008).
#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/own_blocks.h"
#include "agent/own_blocks_slot.h"
#include "base/mutex.h"

namespace berth::agent {

using ipam::BlockView;

namespace {

// What was handed out goes with every patch; this asks for one.
ipam::BlockEdit NothingElse() {
  return {.attachment = {}, .apply = [](ipam::Block&) -> Expected<void> { return {}; }};
}

}  // namespace

ipam::OffsetSet OwnBlocks::OnStandby(const Slot& slot) const {
  // A write that fails or is in doubt must not be followed by answers that rest on the next one.
  const auto is_refused = [](const auto& one) { return one.second.is_refused; };
  const bool goes_well = !slot.is_failing && !slot.doubt_version && !slot.view->deleting && MayStandBy() &&
                         !IsProofLate() && slot.proved >= lapse_ended_.load() && !slot.is_contested() &&
                         std::ranges::none_of(slot.handed_out, is_refused);
  ipam::OffsetSet offsets;
  if (!goes_well) return offsets;
  offsets = slot.view->standby;
  ipam::EraseIf(offsets, [&slot](ipam::BlockOffset offset) {
    return slot.handed_out.contains(offset) || slot.leaving.contains(offset);
  });
  return offsets;
}

BlockView OwnBlocks::HandOut(const BlockView& seen, const ipam::BlockEdit& edit, SteadyTime deadline,
                             std::function<void()> settled) {
  const Lock lock(mutex_);
  const auto found = slots_.find(seen->name);
  if (stopped_ || found == slots_.end()) return nullptr;
  Slot& slot = *found->second;
  const ipam::OffsetSet among = OnStandby(slot);
  const auto is_its = [&edit](const auto& one) { return one.second.attachment == edit.attachment; };
  if (among.empty() || std::ranges::any_of(slot.handed_out, is_its)) return nullptr;
  ipam::Block block = Shown(slot);
  if (ipam::Find(block, edit.attachment) || !edit.take_standby(block, among)) return nullptr;
  const auto offset = ipam::Find(block, edit.attachment);
  if (!offset || !among.contains(*offset)) return nullptr;
  slot.handed_out[*offset] = {
      .attachment = edit.attachment, .entry = block.allocations.at(*offset), .settled = std::move(settled)};
  ipam::BlockEdit write = NothingElse();
  write.stand_by = edit.stand_by;
  // One such change is enough for all that is handed out until it goes, and one more if it has to go sooner.
  const bool is_running_low = among.size() * 2 <= slot.view->standby.size();
  const auto linger = is_running_low ? kSendNow : slot.linger();
  const auto due = std::chrono::steady_clock::now() + linger;
  const auto is_in_time = [due](const auto& waiter) { return waiter->edit.stand_by && waiter->due <= due; };
  if (std::ranges::none_of(slot.queue, is_in_time)) {
    QueueLate(slot, write, linger, deadline, [](const Expected<BlockView>&) {});
  }
  return std::make_shared<const ipam::Block>(std::move(block));
}

void OwnBlocks::Resume(const node::HandedOut& note, std::function<void()> settled) {
  bool is_lost = true;
  if (const SlotPointer slot = FindSlot(note.block)) {
    const Lock lock(mutex_);
    const ipam::Block& block = *slot->view;
    is_lost = block.uid != note.block_uid || note.offset >= block.size();
    if (!is_lost && !ipam::Find(block, note.attachment)) {
      slot->handed_out[note.offset] = {
          .attachment = note.attachment, .entry = note.entry, .settled = std::move(settled)};
      return;
    }
  }
  if (is_lost) observer_.HandedOutLost(note.block, note.entry);
  settled();
}

bool OwnBlocks::IsHandedOut(const std::string& block, const ipam::Attachment& attachment) const {
  const Lock lock(mutex_);
  const auto found = slots_.find(block);
  const auto is_its = [&attachment](const auto& one) { return one.second.attachment == attachment; };
  return found != slots_.end() && std::ranges::any_of(found->second->handed_out, is_its);
}

std::set<ipam::Attachment> OwnBlocks::HandedOut() const {
  std::set<ipam::Attachment> attachments;
  const Lock lock(mutex_);
  for (const auto& [name, slot] : slots_) {
    for (const auto& [offset, one] : slot->handed_out) attachments.insert(one.attachment);
  }
  attachments.erase("");
  return attachments;
}

void OwnBlocks::WriteHandedOut(SteadyTime deadline, const std::function<void(const Error&)>& failed) {
  const Lock lock(mutex_);
  for (const auto& [name, slot] : slots_) {
    PartFromStranger(*slot);
    const bool has_some = !slot->handed_out.empty() || !slot->overwritten.empty() || slot->must_fence;
    if (stopped_ || !has_some || slot->busy || !slot->queue.empty() || slot->is_contested()) continue;
    for (auto& [offset, one] : slot->handed_out) one.is_refused = one.attachment.empty();
    QueueLate(*slot, NothingElse(), kSendNow, deadline, [failed](const Expected<BlockView>& written) {
      if (!written) failed(written.error());
    });
  }
}

void OwnBlocks::RenewStandby(const BlockView& seen, const StandBy& stand_by, SteadyTime deadline) {
  ipam::Block renewed = *seen;
  stand_by(renewed, seen->standby.size());
  ipam::TrimStandby(renewed);
  if (!ipam::IsHeld(renewed)) renewed.standby.clear();
  if (renewed.standby == seen->standby) return;
  ipam::BlockEdit edit = NothingElse();
  edit.stand_by = stand_by;
  EditLater(seen, edit, deadline, [](const Expected<BlockView>&) {});
}

void OwnBlocks::ChooseStandby(const SlotPointer& slot, const Round& round, ipam::Block& changed) {
  const auto last = std::ranges::find_if(
      round.waiters.rbegin(), round.waiters.rend(), [](const auto& waiter) { return bool{waiter->edit.stand_by}; });
  StandBy stand_by;
  std::size_t wanted = options_.standby;
  if (MayStandBy()) {
    const Lock lock(mutex_);
    if (last != round.waiters.rend()) slot->stand_by = (*last)->edit.stand_by;
    stand_by = slot->stand_by;
    // What the patch may not carry stays on standby beside them (LeaveHandedOut).
    wanted -= std::min(wanted, static_cast<std::size_t>(std::ranges::count_if(slot->handed_out, [&](const auto& one) {
                         return !MayGo(one, round.is_alone, round.only);
                       })));
  }
  if (stand_by) stand_by(changed, wanted);
  ipam::TrimStandby(changed);
  if (!ipam::IsHeld(changed)) changed.standby.clear();
}

void OwnBlocks::SettleHandedOut(const SlotPointer& slot, const Round& round) {
  std::vector<Slot::HandedOut> settled;
  std::vector<std::string> lost;
  std::string name;
  {
    const Lock lock(mutex_);
    name = slot->view->name;
    for (const auto& [offset, attachment] : round.handed_out) {
      const auto one = slot->handed_out.find(offset);
      if (one == slot->handed_out.end() || one->second.attachment != attachment) continue;
      // It was not in the way of the patch: somebody else had written there before.
      const auto before = round.base->allocations.find(offset);
      if (!attachment.empty() && before != round.base->allocations.end() &&
          ipam::AttachmentOf(before->second) != attachment) {
        lost.push_back(one->second.entry);
      }
      settled.push_back(std::move(one->second));
      slot->handed_out.erase(one);
    }
  }
  for (const std::string& entry : lost) observer_.HandedOutLost(name, entry);
  for (const Slot::HandedOut& one : settled) one.settled();
}

void OwnBlocks::SendHandedOutApart(const SlotPointer& slot, SteadyTime deadline) {
  std::vector<ipam::BlockOffset> offsets;
  {
    const Lock lock(mutex_);
    for (const auto& [offset, one] : slot->handed_out) {
      if (!one.attachment.empty()) offsets.push_back(offset);
    }
  }
  for (const ipam::BlockOffset offset : offsets) {
    Round round{.waiters = {std::make_shared<Waiter>(NothingElse(), deadline)}, .deadline = deadline};
    round.is_alone = true;
    round.only = offset;
    Run(slot, round);
  }
}

void OwnBlocks::Refuse(const SlotPointer& slot, ipam::BlockOffset offset, const Error& error) {
  std::string name;
  std::string entry;
  {
    const Lock lock(mutex_);
    const auto one = slot->handed_out.find(offset);
    if (one == slot->handed_out.end()) return;
    one->second.is_refused = true;
    entry = one->second.entry;
    name = slot->view->name;
  }
  observer_.HandedOutRefused(name, entry, error);
}

}  // namespace berth::agent
