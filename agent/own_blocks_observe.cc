// SPDX-License-Identifier: Apache-2.0
// What others did to this node's blocks: removed entries, deleted blocks, restored backups, and agents of other
// machines that have this node's name.
#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "agent/own_blocks.h"
#include "agent/own_blocks_slot.h"
#include "base/mutex.h"
#include "ipam/entry.h"

namespace berth::agent {

using ipam::BlockView;

namespace {

// A live agent meets another's fence within the time of a watch, or with its next write.
constexpr std::chrono::minutes kStrangerMax{1};
// Cannot be parsed, so it counts as held.
constexpr std::string_view kStrangersEntry = "?";

// "<machine>-<run>.<counter>"
std::string_view InstanceOf(std::string_view agent) { return agent.substr(0, agent.find('.')); }
std::string_view MachineOf(std::string_view agent) { return agent.substr(0, agent.find_first_of("-.")); }

bool IsFreedFrom(const ipam::Attachment& attachment, const std::string& text) {
  const ipam::Entry entry = ipam::ParseEntry(text);
  const auto* cooling = std::get_if<ipam::CoolingEntry>(&entry);
  return cooling != nullptr && !attachment.empty() && cooling->forget == attachment;
}

}  // namespace

void OwnBlocks::Observe(const BlockView& seen, SteadyTime deadline) {
  SlotPointer slot;
  {
    const Lock lock(mutex_);
    const auto found = slots_.find(seen->name);
    if (found == slots_.end()) return;
    slot = found->second;
    if (slot->busy) {
      // The answer of the patch in flight may be this very version.
      if (slot->observed == nullptr || VersionOf(*seen) > VersionOf(*slot->observed)) slot->observed = seen;
      return;
    }
  }
  if (Adopt(slot, seen)) WriteAgain(slot, deadline);
}

void OwnBlocks::ObserveVersion(const std::string& name, std::uint64_t version, SteadyTime deadline) {
  SlotPointer slot;
  {
    Lock lock(mutex_);
    const auto found = slots_.find(name);
    if (found == slots_.end()) return;
    slot = found->second;
    // The answer of the patch in flight may be this very version.
    slot->idle.wait_until(lock.native(), deadline, [&]() BERTH_REQUIRES(mutex_) {
      return !slot->busy || stopped_ || version <= VersionOf(*slot->view);
    });
    if (stopped_ || version <= VersionOf(*slot->view)) return;
  }
  // What can't be read now is seen by the next write, which conflicts, or by the next resync.
  if (const auto read = Read(name, deadline)) Observe(*read, deadline);
}

void OwnBlocks::WriteAgain(const SlotPointer& slot, SteadyTime deadline) {
  {
    const Lock lock(mutex_);
    if ((slot->overwritten.empty() && !slot->must_fence) || stopped_) return;
  }
  // Nothing to change of its own: what is to be put back and the fence go out with it. What fails, WriteHandedOut tries
  // again.
  const ipam::BlockEdit nothing{.attachment = {}, .apply = [](ipam::Block&) -> Expected<void> { return {}; }};
  static_cast<void>(WriteInSlot(slot, nothing, deadline));
}

void OwnBlocks::ObserveGone(const std::string& name, const std::string& uid, SteadyTime deadline) {
  SlotPointer slot;
  {
    Lock lock(mutex_);
    const auto found = slots_.find(name);
    if (found == slots_.end()) return;
    slot = found->second;
    slot->idle.wait_until(lock.native(), deadline, [&]() BERTH_REQUIRES(mutex_) { return !slot->busy || stopped_; });
    if (slot->busy || stopped_ || slot->view->uid != uid) return;
  }
  Forget(slot);
}

Expected<void> OwnBlocks::ObserveListed(const std::string& name, std::uint64_t version, SteadyTime deadline) {
  BlockView known;
  {
    const Lock lock(mutex_);
    const auto found = slots_.find(name);
    if (found == slots_.end() || version >= VersionOf(*found->second->view)) return {};
    known = found->second->view;
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
  const SlotPointer slot = FindSlot(read->name);
  if (slot != nullptr && VersionOf(*read) < known) {
    // A write meets that as any other does after a restore.
    const Lock lock(mutex_);
    slot->must_fence = true;
  }
  Observe(read, deadline);
}

bool OwnBlocks::Adopt(const SlotPointer& slot, const BlockView& seen) {
  bool is_same = false;
  const bool is_foreign = IsForeign(*seen);
  Noticed noticed;
  if (is_foreign && !observer_.IsStillOurs()) Stop();
  {
    const Lock lock(mutex_);
    if (VersionOf(*seen) <= VersionOf(*slot->view)) return true;
    is_same = slot->view->uid == seen->uid && seen->node == node();
    if (is_same) noticed = See(*slot, seen);
  }
  if (!is_same) Forget(slot);
  Tell(seen->name, noticed);
  if (is_same && is_foreign && !stopped()) observer_.MetAnother(seen->name, seen->agent);
  return is_same;
}

void OwnBlocks::Tell(const std::string& block, const Noticed& noticed) {
  for (const std::string& text : noticed.vanished) observer_.Vanished(block, text);
  for (const std::string& text : noticed.in_use) observer_.StillInUse(block, text);
  for (const std::string& text : noticed.freed) observer_.FreedRightly(block, text);
}

std::optional<std::string> OwnBlocks::StillInUse(const std::string& text, Noticed& noticed) const {
  auto freed = options_.may_have_netns ? ipam::FreedUnder(text) : std::nullopt;
  if (!freed) return std::nullopt;
  if (options_.may_have_netns(freed->entry.netns)) return std::move(freed->text);
  noticed.freed.push_back(std::move(freed->text));
  return std::nullopt;
}

bool OwnBlocks::IsBeingChanged(const Slot& slot, const ipam::Attachment& attachment) {
  return slot.batch.contains(attachment) || std::ranges::any_of(slot.queue, [&](const std::shared_ptr<Waiter>& one) {
           return one->edit.attachment == attachment;
         });
}

OwnBlocks::Noticed OwnBlocks::See(Slot& slot, const BlockView& seen) {
  const BlockView before = std::exchange(slot.view, seen);
  const bool is_older = VersionOf(*seen) < VersionOf(*before);
  ipam::Block expected = *before;
  PutBack(slot, expected);
  // It is of after the write in doubt: that has landed, or never will.
  slot.doubt_version.reset();
  if (IsForeign(*seen)) MeetStranger(slot, *seen, expected);
  std::map<ipam::BlockOffset, Slot::Overwritten> overwritten;
  Noticed noticed;
  for (ipam::BlockOffset offset = 0; offset < seen->size(); ++offset) {
    const std::string by = TextAt(*seen, offset);
    const std::string was = TextAt(expected, offset);
    if (by == was) continue;
    const auto in_use = StillInUse(by, noticed);
    if (!in_use && !IsOverwritten(slot, *seen, is_older, offset, was)) continue;
    const bool is_new = !slot.overwritten.contains(offset);
    const bool is_being_changed = in_use && IsBeingChanged(slot, ipam::Attachment(ipam::AttachmentOf(*in_use)));
    if (is_new && in_use && !is_being_changed) noticed.in_use.push_back(*in_use);
    if (is_new && !in_use && !ipam::AttachmentOf(was).empty()) noticed.vanished.push_back(was);
    overwritten[offset] = {.by = by, .was = in_use ? *in_use : was};
  }
  slot.overwritten = std::move(overwritten);
  if (!is_older) slot.in_doubt.clear();
  return noticed;
}

bool OwnBlocks::IsOverwritten(const Slot& slot, const ipam::Block& seen, bool is_older, ipam::BlockOffset offset,
                              const std::string& was) const {
  const std::string by = TextAt(seen, offset);
  const auto known = slot.overwritten.find(offset);
  if (known != slot.overwritten.end() && known->second.by == by) return true;
  const ipam::Attachment attachment(ipam::AttachmentOf(was));
  const ipam::Attachment other(ipam::AttachmentOf(by));
  // A stranger's may be in use on its machine.
  const auto handed_out = slot.handed_out.find(offset);
  const bool is_set_aside = handed_out != slot.handed_out.end() && handed_out->second.attachment.empty();
  if (is_set_aside || (!other.empty() && IsOfAnotherMachine(seen))) return false;
  if (IsFreedFrom(attachment, by)) return false;
  if (is_older) return other.empty() || !slot.in_doubt.contains(other);
  // Nobody else may change a held entry but to free it (docs/state.md), whatever the version is: that of a backup may
  // be newer.
  const bool is_changing = slot.in_doubt.contains(attachment) || slot.batch.contains(attachment);
  return !attachment.empty() && attachment != other && !is_changing;
}

// It may have answered with what it has on standby, and write that within the minute. What was ours stays ours: it
// keeps away from that as well.
void OwnBlocks::MeetStranger(Slot& slot, const ipam::Block& seen, const ipam::Block& expected) {
  const SteadyTime now = clock_.Now();
  const bool is_known = slot.stranger && now - slot.stranger->met < kStrangerMax;
  // What it writes before this agent's fence is in is no answer to that.
  const bool came_back = is_known && (slot.stranger->came_back || !slot.must_fence);
  // The other one learns by a write that it is not alone. One more is enough: else both would write for ever.
  slot.must_fence = slot.must_fence || !(came_back && slot.stranger->came_back);
  slot.is_failing = true;
  slot.stranger = Stranger{.agent = seen.agent, .met = now, .came_back = came_back};
  for (const ipam::BlockOffset offset : seen.standby) {
    if (expected.standby.contains(offset) || !ipam::AttachmentOf(TextAt(expected, offset)).empty()) continue;
    slot.handed_out.try_emplace(
        offset,
        Slot::HandedOut{.attachment = {}, .entry = std::string(kStrangersEntry), .settled = [] {}, .is_refused = true});
  }
}

bool OwnBlocks::IsForeign(const ipam::Block& block) const {
  return !block.agent.empty() && InstanceOf(block.agent) != instance();
}

bool OwnBlocks::IsOfAnotherMachine(const ipam::Block& block) const {
  return !block.agent.empty() && MachineOf(block.agent) != MachineOf(instance());
}

void OwnBlocks::PartFromStranger(Slot& slot) {
  if (!slot.stranger || clock_.Now() - slot.stranger->met < kStrangerMax) return;
  if (IsForeign(*slot.view)) {
    // It had the last word. A minute after the next it is gone.
    slot.must_fence = true;
    slot.stranger->came_back = false;
    return;
  }
  slot.stranger.reset();
  std::erase_if(slot.handed_out, [](const auto& one) { return one.second.attachment.empty(); });
}

std::optional<Error> OwnBlocks::Contested(const Slot& slot) const {
  const Lock lock(mutex_);
  if (!slot.stranger || !slot.is_contested()) return std::nullopt;
  return Error{.code = ErrorCode::kUnavailable,
               .message = "agents " + std::string(InstanceOf(slot.stranger->agent)) + " and " + instance() +
                          " both write block " + slot.view->name + " of node " + node(),
               .details = "do two machines have this name? Each node needs a name of its own"};
}

Error OwnBlocks::GoBack(const SlotPointer& slot, const BlockView& seen) {
  bool is_same = false;
  Noticed noticed;
  {
    const Lock lock(mutex_);
    is_same = slot->view->uid == seen->uid && seen->node == node();
    if (is_same && VersionOf(*seen) < VersionOf(*slot->view)) noticed = See(*slot, seen);
    // The others may be no better: a write of each has to succeed before anything is handed out of it.
    for (const auto& [name, other] : slots_) other->is_failing = other->must_fence = true;
  }
  if (!is_same) Forget(slot);
  Tell(seen->name, noticed);
  observer_.WentBack(seen->name);
  // Its successor may have written that version.
  if (is_same && IsForeign(*seen) && !observer_.IsStillOurs()) Stop();
  return {.code = ErrorCode::kUnavailable,
          .message = "the API server has an older version of block " + seen->name + " than it had before",
          .details = "was the API server restored from a backup? The runtime tries the call again"};
}

void OwnBlocks::Forget(const SlotPointer& slot) {
  Waiters late;
  std::string name;
  std::map<ipam::BlockOffset, Slot::HandedOut> handed_out;
  BlockView held;
  {
    const Lock lock(mutex_);
    name = slot->view->name;
    const auto found = slots_.find(name);
    if (found == slots_.end() || found->second != slot) return;
    std::erase_if(slot->handed_out, [](const auto& one) { return one.second.attachment.empty(); });
    held = std::make_shared<const ipam::Block>(Shown(*slot));
    slots_.erase(found);
    ++generation_;
    late = TakeLate(*slot);
    handed_out = std::exchange(slot->handed_out, {});
  }
  // A block goes when it is empty, unless somebody forces it or the API server forgets it.
  for (const auto& [offset, entry] : held->allocations) {
    if (!ipam::AttachmentOf(entry).empty()) observer_.HandedOutLost(name, entry);
  }
  for (const auto& [offset, one] : handed_out) one.settled();
  for (const auto& waiter : late) Finish(*waiter, Fail(ErrorCode::kNotFound, "block " + name + " is gone"));
}

}  // namespace berth::agent
