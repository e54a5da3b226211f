// SPDX-License-Identifier: Apache-2.0
// The map of blocks, who waits for what, and taking over blocks.
#include "agent/own_blocks.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "agent/own_blocks_slot.h"
#include "base/mutex.h"

namespace berth::agent {

using ipam::BlockView;

namespace {

constexpr int kGatherPart = 4;
constexpr std::chrono::milliseconds kGatherMax{50};

std::unexpected<Error> Ending() {
  return Fail(ErrorCode::kUnavailable,
              "this agent is shutting down, or another agent has replaced it",
              "the runtime tries the call again");
}

}  // namespace

std::uint64_t VersionOf(std::string_view resource_version) {
  std::uint64_t version = 0;
  const char* const start = resource_version.data();
  const char* const stop = start + resource_version.size();
  const auto [end, error] = std::from_chars(start, stop, version);
  return error == std::errc() && end == stop ? version : 0;
}

OwnBlocks::OwnBlocks(k8sclient::Api& api, k8sclient::Clock& clock, OwnBlocksOptions options, BlockObserver& observer)
    : api_(api), clock_(clock), options_(std::move(options)), observer_(observer) {}

std::vector<BlockView> OwnBlocks::Snapshot(std::uint64_t until) const {
  const Lock lock(mutex_);
  std::vector<BlockView> views;
  views.reserve(slots_.size());
  for (const auto& [name, slot] : slots_) {
    if (slot->born > until) continue;
    views.push_back(IsShownAsWritten(*slot) ? slot->view : std::make_shared<const ipam::Block>(Shown(*slot)));
  }
  return views;
}

std::set<std::string> OwnBlocks::Names() const {
  const Lock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, slot] : slots_) names.insert(name);
  return names;
}

bool OwnBlocks::IsShownAsWritten(const Slot& slot) const {
  return slot.handed_out.empty() && slot.overwritten.empty() && std::ranges::none_of(slot.sent, kIsLate) &&
         std::ranges::none_of(slot.queue, kIsLate);
}

ipam::Block OwnBlocks::Shown(const Slot& slot) const {
  ipam::Block block = *slot.view;
  PutBack(slot, block);
  AddHandedOut(slot, block);
  const auto apply = [&](const auto& waiter) {
    if (kIsLate(waiter)) static_cast<void>(waiter->edit.apply(block));
  };
  std::ranges::for_each(slot.sent, apply);
  std::ranges::for_each(slot.queue, apply);
  return block;
}

bool OwnBlocks::Holds(const ipam::Attachment& attachment) const {
  const Lock lock(mutex_);
  return std::ranges::any_of(slots_, [&attachment](const auto& named) {
    const Slot& slot = *named.second;
    const auto is_its = [&](const auto& one) { return ipam::AttachmentOf(one.second.was) == attachment; };
    const auto was_its = [&](const auto& one) { return one.second.attachment == attachment; };
    return ipam::Find(*slot.view, attachment) || std::ranges::any_of(slot.overwritten, is_its) ||
           std::ranges::any_of(slot.handed_out, was_its);
  });
}

std::uint64_t OwnBlocks::Generation() const {
  const Lock lock(mutex_);
  return generation_;
}

std::string OwnBlocks::NextFence() {
  const Lock lock(mutex_);
  return instance() + "." + std::to_string(++fences_);
}

Expected<void> OwnBlocks::Fence(const BlockView& seen, SteadyTime deadline, const StandbyOf& standby, FenceWhat what) {
  BlockView base = seen;
  BlockView foreign;  // the last version by another machine's agent: what it has on standby stays there
  while (true) {
    if (base->node != node()) {
      return Fail(ErrorCode::kNotFound, "block " + base->name + " does not belong to node " + node());
    }
    // If another thread brings the block in after this, nothing is on standby before the block has another version.
    if (what == FenceWhat::kUnknown && Knows(base->name)) {
      return Fail(ErrorCode::kConflict, "a call of this agent uses block " + base->name + " already");
    }
    ipam::Block fenced = *base;
    fenced.agent = NextFence();
    fenced.standby = standby(fenced);
    // This agent's own fence, whose answer was lost, may be newer.
    if (IsOfAnotherMachine(*base)) foreign = base;
    for (const ipam::BlockOffset offset : foreign == nullptr ? ipam::OffsetSet() : foreign->standby) {
      if (!fenced.allocations.contains(offset)) fenced.standby.insert(offset);
    }
    const auto written = Patch(*base, fenced, clock_.SinceBoot(), deadline);
    if (written) {
      Insert(*written, foreign == nullptr ? base : foreign);
      return {};
    }
    const ErrorCode code = written.error().code;
    if (code != ErrorCode::kConflict && code != ErrorCode::kUnknownOutcome) return std::unexpected(written.error());
    auto read = Read(base->name, deadline);
    if (!read) return std::unexpected(read.error());
    base = *std::move(read);
  }
}

void OwnBlocks::Insert(const BlockView& created) { Insert(created, created); }

void OwnBlocks::Insert(const BlockView& written, const BlockView& before) {
  // An earlier block of that name is gone, and what it held; or this one was fenced before, and `written` does not say
  // any more who wrote what is in it.
  if (const SlotPointer known = FindSlot(written->name)) {
    if (Adopt(known, before)) Adopt(known, written);
  }
  Noticed noticed;
  {
    const Lock lock(mutex_);
    auto& slot = slots_[written->name];
    ++generation_;
    if (slot != nullptr) return;
    slot = std::make_shared<Slot>();
    slot->born = generation_;
    slot->view = written;
    if (IsOfAnotherMachine(*before)) MeetStranger(*slot, *before, ipam::Block{});
    slot->must_fence = false;
    for (const auto& [offset, text] : written->allocations) {
      const auto in_use = StillInUse(text, noticed);
      if (!in_use) continue;
      slot->overwritten[offset] = {.by = text, .was = *in_use};
      noticed.in_use.push_back(*in_use);
    }
  }
  Tell(written->name, noticed);
}

OwnBlocks::SlotPointer OwnBlocks::FindSlot(const std::string& name) const {
  const Lock lock(mutex_);
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : found->second;
}

Expected<BlockView> OwnBlocks::Edit(const BlockView& seen, const ipam::BlockEdit& edit, SteadyTime deadline) {
  if (const SlotPointer slot = FindSlot(seen->name)) return WriteInSlot(slot, edit, deadline);
  return Fail(
      ErrorCode::kUnavailable, "block " + seen->name + " was deleted a moment ago", "the runtime tries the call again");
}

Expected<BlockView> OwnBlocks::WriteInSlot(const SlotPointer& slot, const ipam::BlockEdit& edit, SteadyTime deadline) {
  const auto self = std::make_shared<Waiter>(edit, deadline);
  Lock lock(mutex_);
  slot->queue.push_back(self);
  if (slot->busy && CountThreads(slot->queue) >= slot->expected) slot->arrived.notify_one();
  while (!self->result && !stopped_) {
    if (!slot->busy && edit.take_standby && !OnStandby(*slot).empty()) {
      std::erase(slot->queue, self);
      if (slot->expected > 0) --slot->expected;
      WakeNext(*slot);
      return nullptr;
    }
    // Whoever sends waits for the answer: so the one that has the most time does, and for no longer.
    if (!slot->busy && std::chrono::steady_clock::now() < deadline && SenderOf(*slot) == self) {
      slot->busy = true;
      lock.unlock();
      SendBatch(slot, deadline);
      lock.lock();
      continue;
    }
    if (self->changed.wait_until(lock.native(), deadline) != std::cv_status::timeout || self->result) continue;
    if (self->is_sent) {
      // In doubt (InDoubt) until its batch is through.
      return Fail(ErrorCode::kUnknownOutcome,
                  "the time limit passed before the API server answered for block " + slot->view->name,
                  "the runtime tries the call again; is the API server slow?");
    }
    std::erase(slot->queue, self);
    // This may have been the one that was to send the next batch.
    if (!slot->busy) WakeNext(*slot);
    return Fail(ErrorCode::kTimeout,
                "the time limit passed before the change of block " + slot->view->name + " could be sent",
                "the runtime tries the call again; is the API server slow?");
  }
  if (self->result) return *std::move(self->result);
  std::erase(slot->queue, self);
  return Ending();
}

void OwnBlocks::SendBatch(const SlotPointer& slot, SteadyTime deadline) {
  Lock lock(mutex_);
  // Callers that were just answered are often back soon. A part of the time of a patch is little to wait for them, and
  // saves a patch. A caller that is alone expects nobody.
  const auto patience = std::min<std::chrono::steady_clock::duration>(slot->took / kGatherPart, kGatherMax);
  const auto end = std::min(deadline, std::chrono::steady_clock::now() + patience);
  slot->arrived.wait_until(lock.native(), end, [&]() BERTH_REQUIRES(mutex_) {
    return CountThreads(slot->queue) >= slot->expected || stopped_;
  });
  // It is over when this call's time is. Threads that joined and have more send the next one.
  std::deque<std::shared_ptr<Waiter>> later;
  const auto has_more = [deadline](const auto& waiter) {
    return !waiter->done && waiter->deadline > deadline + kGatherMax;
  };
  std::ranges::partition_copy(slot->queue, std::back_inserter(later), std::back_inserter(slot->sent), has_more);
  slot->queue = std::move(later);
  for (const auto& waiter : slot->sent) waiter->is_sent = true;
  const Waiters batch = slot->sent;
  lock.unlock();
  Commit(slot, {.waiters = batch, .deadline = deadline});
  lock.lock();
  slot->sent.clear();
  slot->expected = CountThreads(batch) + CountThreads(slot->queue);
  slot->busy = false;
  slot->idle.notify_all();
  WakeNext(*slot);
  const BlockView observed = std::exchange(slot->observed, nullptr);
  lock.unlock();
  if (observed != nullptr) Adopt(slot, observed);
}

std::shared_ptr<OwnBlocks::Waiter> OwnBlocks::SenderOf(const Slot& slot) {
  std::shared_ptr<Waiter> sender;
  for (const auto& waiter : slot.queue) {
    const bool is_thread = !waiter->done;
    if (is_thread && (sender == nullptr || waiter->deadline > sender->deadline)) sender = waiter;
  }
  return sender;
}

void OwnBlocks::WakeNext(const Slot& slot) {
  if (const auto sender = SenderOf(slot)) {
    sender->changed.notify_one();
  } else if (!slot.queue.empty()) {
    late_.notify_one();
  }
}

void OwnBlocks::EditLater(const BlockView& seen, const ipam::BlockEdit& edit, SteadyTime deadline,
                          const EditDone& done) {
  Lock lock(mutex_);
  const auto found = slots_.find(seen->name);
  if (stopped_ || found == slots_.end()) {
    const bool is_ending = stopped_;
    lock.unlock();
    done(is_ending ? Ending() : Fail(ErrorCode::kNotFound, "block " + seen->name + " is gone"));
    return;
  }
  QueueLate(*found->second, edit, found->second->linger(), deadline, done);
}

void OwnBlocks::QueueLate(Slot& slot, const ipam::BlockEdit& edit, std::chrono::milliseconds linger,
                          SteadyTime deadline, const EditDone& done) {
  const auto waiter = std::make_shared<Waiter>(edit, deadline, done);
  waiter->due = std::chrono::steady_clock::now() + linger;
  slot.queue.push_back(waiter);
  ++late_count_;
  // Most are due after others that it waits for already.
  if (waiter->due < late_wakes_) late_.notify_one();
}

void OwnBlocks::SendLate() {
  Lock lock(mutex_);
  while (!stopped_) {
    SlotPointer first;
    SteadyTime due = SteadyTime::max();
    for (const auto& [name, slot] : slots_) {
      if (slot->busy) continue;  // whoever sends wakes this thread if something is left
      for (const auto& waiter : slot->queue) {
        if (!waiter->done || waiter->due >= due) continue;
        due = waiter->due;
        first = slot;
      }
    }
    late_wakes_ = due;
    if (first == nullptr) {
      late_.wait(lock.native());
    } else if (due > std::chrono::steady_clock::now()) {
      late_.wait_until(lock.native(), due);
    } else {
      late_wakes_ = SteadyTime::min();
      first->busy = true;
      lock.unlock();
      // What nobody waits for may have waited long for the patch before it. A request that is cut short is in doubt,
      // and makes a slow API server slower.
      SendBatch(first, std::chrono::steady_clock::now() + kRequestMax);
      lock.lock();
    }
  }
  Waiters left;
  for (const auto& [name, slot] : slots_) std::ranges::move(TakeLate(*slot), std::back_inserter(left));
  lock.unlock();
  for (const auto& waiter : left) Finish(*waiter, Ending());
}

OwnBlocks::Waiters OwnBlocks::TakeLate(Slot& slot) {
  Waiters late;
  std::ranges::copy_if(slot.queue, std::back_inserter(late), [](const auto& waiter) { return bool{waiter->done}; });
  std::erase_if(slot.queue, [](const auto& waiter) { return bool{waiter->done}; });
  return late;
}

void OwnBlocks::AwaitLate(SteadyTime deadline) {
  Lock lock(mutex_);
  late_is_over_.wait_until(
      lock.native(), deadline, [this]() BERTH_REQUIRES(mutex_) { return late_count_ == 0 || stopped_; });
}

void OwnBlocks::WakeAll(Slot& slot) {
  for (const auto& waiter : slot.queue) waiter->changed.notify_one();
  for (const auto& waiter : slot.sent) waiter->changed.notify_one();
  slot.arrived.notify_all();
  slot.idle.notify_all();
}

std::vector<ipam::OpenIntent> OwnBlocks::InDoubt(const ipam::Attachment& attachment) const {
  std::vector<ipam::OpenIntent> intents;
  const Lock lock(mutex_);
  for (const auto& [name, slot] : slots_) {
    const auto is_under_way = [&attachment](const auto& waiter) {
      return waiter->edit.attachment == attachment && !waiter->result;
    };
    if (slot->in_doubt.contains(attachment) || std::ranges::any_of(slot->sent, is_under_way)) {
      intents.push_back({.id = name, .attachment = attachment, .block = *slot->view});
    }
  }
  return intents;
}

void OwnBlocks::CloseIntent(const ipam::OpenIntent& intent) {
  const Lock lock(mutex_);
  const auto found = slots_.find(intent.id);
  if (found != slots_.end()) found->second->in_doubt.erase(intent.attachment);
}

void OwnBlocks::Stop() {
  const Lock lock(mutex_);
  stopped_ = true;
  for (const auto& [name, slot] : slots_) WakeAll(*slot);
  late_.notify_all();
  late_is_over_.notify_all();
}

bool OwnBlocks::stopped() const {
  const Lock lock(mutex_);
  return stopped_;
}

}  // namespace berth::agent
