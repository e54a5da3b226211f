// SPDX-License-Identifier: Apache-2.0
// Finds what other writers, restored backups and foreign agents have changed in a block.
#include "agent_core/observe.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "ipam/entry.h"

namespace berth::agent_core {

namespace {

// A live foreign agent notices this agent's fence within this time: its watch shows the fence, or its next write meets
// a conflict.
constexpr std::chrono::minutes kForeignAgentMax{1};
// The text cannot be parsed, so it counts as a held entry.
constexpr std::string_view kSetAsideEntry = "?";

std::string_view MachineOf(std::string_view agent) { return agent.substr(0, agent.find_first_of("-.")); }

bool IsFreedFrom(const ipam::Attachment& attachment, const std::string& text) {
  const ipam::Entry entry = ipam::ParseEntry(text);
  const auto* cooling = std::get_if<ipam::CoolingEntry>(&entry);
  return cooling != nullptr && !attachment.empty() && cooling->forget == attachment;
}

// True: a change of the attachment (usually its DEL) is queued or being sent, or the batch changes its entry.
bool IsBeingChanged(const BlockState& state, const ipam::Attachment& attachment) {
  const auto is_its = [&](const PendingChange& one) { return one.change.attachment == attachment; };
  return state.attachments_in_flight.contains(attachment) || std::ranges::any_of(state.queue, is_its);
}

// True: the agent has to restore the expected text at `offset`. Requires: `seen` has another text there.
bool HasToBeRestored(const BlockState& state, const ipam::Block& seen, const ipam::Block& expected,
                     ipam::BlockOffset offset, const Self& self) {
  const std::string by = TextAt(seen, offset);
  const auto known = state.to_restore.find(offset);
  if (known != state.to_restore.end() && known->second.found == by) return true;
  const ipam::Attachment attachment(ipam::AttachmentOf(TextAt(expected, offset)));
  const ipam::Attachment other(ipam::AttachmentOf(by));
  // A pod on the other machine may use this address.
  const auto handed_out = state.handed_out.find(offset);
  const bool is_set_aside = handed_out != state.handed_out.end() && handed_out->second.is_set_aside();
  if (is_set_aside || (!other.empty() && IsOfAnotherMachine(seen, self.instance))) return false;
  if (IsFreedFrom(attachment, by)) return false;
  if (VersionOf(seen) < VersionOf(expected)) return other.empty() || !state.in_doubt.contains(other);
  // Other writers may only replace a held entry by a cooling entry (IsFreedFrom; docs/state.md), so a held entry that
  // is gone in another way has to be restored. `seen` may also come from a restored backup, although its version is
  // newer.
  const bool is_changing = state.in_doubt.contains(attachment) || state.attachments_in_flight.contains(attachment);
  return !attachment.empty() && attachment != other && !is_changing;
}

}  // namespace

std::string_view InstanceOf(std::string_view agent) { return agent.substr(0, agent.find('.')); }

bool IsForeign(const ipam::Block& block, std::string_view instance) {
  return !block.agent.empty() && InstanceOf(block.agent) != instance;
}

bool IsOfAnotherMachine(const ipam::Block& block, std::string_view instance) {
  return !block.agent.empty() && MachineOf(block.agent) != MachineOf(instance);
}

std::optional<std::string> StillInUse(const std::string& text, const Self& self, Noticed& noticed) {
  auto freed = self.may_have_netns ? ipam::FreedUnder(text) : std::nullopt;
  if (!freed) return std::nullopt;
  if (self.may_have_netns(freed->entry.netns)) return std::move(freed->text);
  noticed.freed.push_back(std::move(freed->text));
  return std::nullopt;
}

Comparison Compare(const BlockState& state, const ipam::Block& expected, const ipam::Block& seen, const Self& self) {
  Comparison result;
  for (ipam::BlockOffset offset = 0; offset < seen.size(); ++offset) {
    const std::string by = TextAt(seen, offset);
    const std::string was = TextAt(expected, offset);
    if (by == was) continue;
    const auto in_use = StillInUse(by, self, result.noticed);
    if (!in_use && !HasToBeRestored(state, seen, expected, offset, self)) continue;
    const bool is_new = !state.to_restore.contains(offset);
    const bool is_being_changed = in_use && IsBeingChanged(state, ipam::Attachment(ipam::AttachmentOf(*in_use)));
    if (is_new && in_use && !is_being_changed) result.noticed.in_use.push_back(*in_use);
    if (is_new && !in_use && !ipam::AttachmentOf(was).empty()) result.noticed.vanished.push_back(was);
    result.to_restore[offset] = {.found = by, .wanted = in_use ? *in_use : was};
  }
  return result;
}

void MeetForeignAgent(BlockState& state, const ipam::Block& seen, const ipam::Block& expected, const Now& now) {
  const bool is_known = state.foreign_agent && now.since_boot - state.foreign_agent->met < kForeignAgentMax;
  // If the foreign agent writes before this agent's fence has landed, this write is no answer to the fence.
  const bool came_back = is_known && (state.foreign_agent->came_back || !state.must_fence);
  // This agent's fence tells the foreign agent that both write the block. If the foreign agent comes back a second
  // time, this agent does not fence again; otherwise both would write over each other for ever.
  state.must_fence = state.must_fence || !(came_back && state.foreign_agent->came_back);
  state.is_failing = true;
  state.foreign_agent = ForeignAgent{.agent = seen.agent, .met = now.since_boot, .came_back = came_back};
  for (const ipam::BlockOffset offset : seen.standby) {
    if (expected.standby.contains(offset) || !ipam::AttachmentOf(TextAt(expected, offset)).empty()) continue;
    // The foreign agent may have given its addresses on standby to pods, and may write their entries within 60 s.
    state.handed_out.try_emplace(offset,
                                 HandedOut{.attachment = {}, .entry = std::string(kSetAsideEntry), .is_refused = true});
  }
}

void PartFromForeignAgent(BlockState& state, const Self& self, const Now& now) {
  if (!state.foreign_agent || now.since_boot - state.foreign_agent->met < kForeignAgentMax) return;
  if (IsForeign(*state.view, self.instance)) {
    // The foreign agent wrote last: write over it, and wait another 60 s.
    state.must_fence = true;
    state.foreign_agent->came_back = false;
    return;
  }
  // No address is given before a write has succeeded, which shows that the foreign agent is silent.
  state.is_failing = true;
  state.foreign_agent.reset();
  std::erase_if(state.handed_out, [](const auto& one) { return one.second.is_set_aside(); });
}

}  // namespace berth::agent_core
