// SPDX-License-Identifier: Apache-2.0
// Sends requests for blocks, takes over blocks, and takes in what lists and watches show.
#include <algorithm>
#include <utility>

#include "agent/own_blocks.h"
#include "base/mutex.h"
#include "k8sclient/verbs.h"
#include "node/direct_store.h"

namespace berth::agent {

using agent_core::ChangeId;
using agent_core::Core;
using agent_core::News;
using ipam::BlockView;

namespace {

k8sclient::CallOptions Until(SteadyTime deadline) {
  return {.deadline = std::min(deadline, std::chrono::steady_clock::now() + kRequestMax), .stop = {}};
}

}  // namespace

Expected<BlockView> OwnBlocks::Read(const std::string& name, SteadyTime deadline) {
  return node::ReadBlock(api_, name, Until(deadline));
}

Expected<BlockView> OwnBlocks::Patch(const agent_core::Write& write) {
  return node::PatchBlock(api_, *write.before, write.after, Until(write.deadline), write.asks_for_all);
}

Expected<BlockView> OwnBlocks::Perform(const std::string& block, const agent_core::Step& step) {
  if (const auto* write = std::get_if<agent_core::Write>(&step)) return Patch(*write);
  auto read = Read(block, std::get<agent_core::Read>(step).deadline);
  if (read) StopIfReplaced(**read);
  return read;
}

void OwnBlocks::StopIfReplaced(const ipam::Block& seen) {
  if (agent_core::IsForeign(seen, instance()) && !observer_.IsStillOurs()) Stop();
}

Expected<void> OwnBlocks::TakeIn(const BlockView& seen, SteadyTime deadline) {
  auto fenced = Fence(seen, deadline, /*is_new=*/true);
  if (!fenced && Knows(seen->name)) return {};
  return fenced;
}

Expected<void> OwnBlocks::Fence(const BlockView& seen, SteadyTime deadline, bool is_new) {
  const auto notes = Notes()->ReadHandedOut();
  if (!notes) return std::unexpected(notes.error());
  BlockView base = seen;
  bool was_lost = false;
  while (true) {
    if (base->node != node()) {
      return Fail(ErrorCode::kNotFound, "block " + base->name + " does not belong to node " + node());
    }
    // If another thread adds the block after this check, that thread cannot hand out an address before it has written
    // the block's next version, and then this fence meets a conflict.
    if (is_new && Knows(base->name)) {
      return Fail(ErrorCode::kConflict, "a call of this agent uses block " + base->name + " already");
    }
    agent_core::Write write{.before = base, .after = *base, .asks_for_all = false, .deadline = deadline};
    write.after.standby = node::HandedOutOf(write.after, *notes);
    const BlockView foreign = KeepOfAnotherMachine(base);
    for (const ipam::BlockOffset offset : foreign == nullptr ? ipam::OffsetSet() : foreign->standby) {
      if (!write.after.allocations.contains(offset)) write.after.standby.insert(offset);
    }
    const agent_core::Now asked = TimeNow();
    {
      const Lock lock(mutex_);
      write.after.agent = core_.NextFence();
      write.asks_for_all = !write.after.standby.empty() && core_.IsProofDue(asked);
    }
    const auto written = Patch(write);
    if (written && write.asks_for_all) {
      TakeProof(asked, (*written)->standby == write.after.standby);
    }
    if (written) {
      Insert(*written, foreign == nullptr ? base : foreign, *notes);
      const Lock lock(mutex_);
      foreign_.erase(base->name);
      return {};
    }
    const ErrorCode code = written.error().code;
    // Usually one connection was cut: if the answer is lost, read the block, and write once more.
    const bool is_lost = code == ErrorCode::kUnknownOutcome && !std::exchange(was_lost, true);
    if (code != ErrorCode::kConflict && !is_lost) return std::unexpected(written.error());
    auto read = Read(base->name, deadline);
    if (!read) return std::unexpected(read.error());
    base = *std::move(read);
  }
}

BlockView OwnBlocks::KeepOfAnotherMachine(const BlockView& seen) {
  const Lock lock(mutex_);
  if (agent_core::IsOfAnotherMachine(*seen, instance())) foreign_[seen->name] = seen;
  const auto known = foreign_.find(seen->name);
  return known == foreign_.end() || known->second->uid != seen->uid ? nullptr : known->second;
}

void OwnBlocks::Insert(const BlockView& written, const BlockView& before, const std::vector<node::HandedOut>& notes) {
  if (Knows(written->name)) StopIfReplaced(*before);
  std::vector<node::HandedOut> over;
  Lock lock(mutex_);
  News news;
  const StatePointer known = core_.Find(written->name);
  core_.Insert(written, before, TimeNow(), news);
  const bool is_new = core_.Find(written->name) != known;
  // Resume the notes of a new block under the lock, before another thread can give one of the addresses to a pod. For a
  // known block, an earlier Insert has resumed the notes. `notes` may be outdated then: an address whose note is gone
  // may be free, or another pod may have it.
  for (const node::HandedOut& note : notes) {
    if (!is_new || note.block != written->name) continue;
    const ChangeId id =
        core_.Resume(note.uid, note.offset, {.attachment = note.attachment, .entry = note.entry}, written->name, news);
    if (id == 0) {
      over.push_back(note);
    } else {
      ForgetNoteOnceSettled(id, note.attachment, note.block);
    }
  }
  Deliver(lock, news);
  lock.unlock();
  for (const node::HandedOut& note : over) Notes()->ForgetHandedOut(note.attachment, note.block);
}

void OwnBlocks::ProveStandby(SteadyTime deadline) {
  const agent_core::Now asked = TimeNow();
  StatePointer state;
  BlockView block;
  {
    const Lock lock(mutex_);
    if (!core_.IsProofDue(asked)) return;
    const auto stands_by = [](const auto& named) { return !named.second->view->standby.empty(); };
    const auto found = std::ranges::find_if(core_.blocks(), stands_by);
    if (found == core_.blocks().end()) return;
    state = found->second;
    block = state->view;
  }
  const auto read = Read(block->name, deadline);
  if (!read && read.error().code == ErrorCode::kNotFound) ObserveGone(block->name, block->uid, deadline);
  if (!read) return;
  if ((*read)->resource_version != block->resource_version) {
    // Somebody has written the block meanwhile, and may have changed `standby`: this read is no proof.
    return ObserveRead(*read, VersionOf(*block), deadline);
  }
  {
    const Lock lock(mutex_);
    Core::Prove(*state, asked);
  }
  TakeProof(asked, (*read)->standby == block->standby);
}

void OwnBlocks::TakeProof(const agent_core::Now& asked, bool is_kept) {
  Lock lock(mutex_);
  News news;
  core_.TakeProof(asked.since_boot, is_kept, TimeNow(), news);
  Deliver(lock, news);
}

bool OwnBlocks::Learn(const StatePointer& state, const BlockView& seen) {
  StopIfReplaced(*seen);
  Lock lock(mutex_);
  if (state->is_sending) {
    Core::KeepUntilEnd(*state, seen);
    return true;
  }
  News news;
  const bool is_same = core_.Adopt(*state, seen, TimeNow(), news);
  Deliver(lock, news);
  return is_same;
}

void OwnBlocks::Observe(const BlockView& seen, SteadyTime deadline) {
  const StatePointer state = FindState(seen->name);
  if (state == nullptr || !Learn(state, seen)) return;
  {
    const Lock lock(mutex_);
    // A batch under way keeps the later version until its end (KeepUntilEnd). After that, WriteHandedOut writes the
    // block.
    if (state->is_sending || !core_.HasToWrite(*state)) return;
  }
  // The empty change makes a patch, which carries the entries to restore and the fence. If the patch fails,
  // WriteHandedOut tries again.
  static_cast<void>(WriteIn(state, {}, deadline));
}

void OwnBlocks::ObserveVersion(const std::string& name, std::uint64_t version, SteadyTime deadline) {
  {
    Lock lock(mutex_);
    const StatePointer state = core_.Find(name);
    if (state == nullptr) return;
    // Wait for the patch under way: it may have written this version.
    SignalsOf(name)->idle.wait_until(lock.native(), deadline, [&]() BERTH_REQUIRES(mutex_) {
      return !state->is_sending || core_.stopped() || version <= VersionOf(*state->view);
    });
    if (core_.stopped() || version <= VersionOf(*state->view)) return;
  }
  // If this read fails, the block's next write (a conflict) or the next resync finds the version.
  if (const auto read = Read(name, deadline)) Observe(*read, deadline);
}

void OwnBlocks::ObserveGone(const std::string& name, const std::string& uid, SteadyTime deadline) {
  Lock lock(mutex_);
  const StatePointer state = core_.Find(name);
  if (state == nullptr) return;
  SignalsOf(name)->idle.wait_until(
      lock.native(), deadline, [&]() BERTH_REQUIRES(mutex_) { return !state->is_sending || core_.stopped(); });
  if (state->is_sending || core_.stopped() || state->view->uid != uid) return;
  News news;
  core_.Forget(*state, news);
  Deliver(lock, news);
}

Expected<void> OwnBlocks::ObserveListed(const std::string& name, std::uint64_t version, SteadyTime deadline) {
  BlockView known;
  {
    const Lock lock(mutex_);
    const StatePointer state = core_.Find(name);
    if (state == nullptr || version >= VersionOf(*state->view)) return {};
    known = state->view;
  }
  const auto read = Read(name, deadline);
  if (!read) {
    if (read.error().code != ErrorCode::kNotFound) return std::unexpected(read.error());
    ObserveGone(name, known->uid, deadline);
    return {};
  }
  ObserveRead(*read, VersionOf(*known), deadline);
  return {};
}

void OwnBlocks::ObserveRead(const BlockView& read, std::uint64_t known, SteadyTime deadline) {
  {
    const Lock lock(mutex_);
    const StatePointer state = core_.Find(read->name);
    // If the read shows an older version, the API server was restored from a backup. The block's fence will meet a
    // conflict, and then the core accepts the older version (GoBack).
    if (state != nullptr && VersionOf(*read) < known) Core::Distrust(*state);
  }
  Observe(read, deadline);
}

}  // namespace berth::agent
