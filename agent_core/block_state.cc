// SPDX-License-Identifier: Apache-2.0
// BlockState: the block as callers see it, and the invariants of the state.
#include "agent_core/block_state.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <variant>

#include "base/check.h"

namespace berth::agent_core {

namespace {

bool IsShownAsWritten(const BlockState& state) {
  const auto is_deferred = [](const PendingChange& one) { return !one.has_caller; };
  return state.handed_out.empty() && state.to_restore.empty() && std::ranges::none_of(state.queue, is_deferred) &&
         std::ranges::none_of(state.rounds,
                              [&](const Round& round) { return std::ranges::any_of(round.changes, is_deferred); });
}

// True: the patch writes another attachment's entry at an address that was handed out to `attachment`. The patch may
// leave or restore another attachment's entry.
bool GivesAway(const BlockState& state, const Round& round, ipam::BlockOffset offset,
               const ipam::Attachment& attachment) {
  const std::string text = TextAt(round.after, offset);
  const std::string_view holder = ipam::AttachmentOf(text);
  // Another entry is already there: the address was lost or given back before this patch.
  const std::string before = TextAt(*round.before, offset);
  if (!before.empty() && ipam::AttachmentOf(before) != attachment) return false;
  const auto restored = state.to_restore.find(offset);
  const bool is_restored = restored != state.to_restore.end() && restored->second.wanted == text;
  return !holder.empty() && holder != attachment && !is_restored && !IsGivenBack(state, attachment);
}

}  // namespace

std::string TextAt(const ipam::Block& block, ipam::BlockOffset offset) {
  const auto found = block.allocations.find(offset);
  return found == block.allocations.end() ? std::string() : found->second;
}

// Removals come first, because an attachment may have moved to another of these addresses.
void RestoreEntries(const BlockState& state, ipam::Block& block) {
  for (const auto& [offset, one] : state.to_restore) {
    if (!one.found.empty() && TextAt(block, offset) == one.found) block.allocations.erase(offset);
  }
  for (const auto& [offset, one] : state.to_restore) {
    const std::string_view attachment = ipam::AttachmentOf(one.wanted);
    const bool is_elsewhere = !attachment.empty() && ipam::Find(block, attachment);
    if (!one.wanted.empty() && !is_elsewhere) block.allocations.try_emplace(offset, one.wanted);
  }
}

void AddHandedOut(const BlockState& state, ipam::Block& block) {
  for (const auto& [offset, one] : state.handed_out) {
    if (!one.is_set_aside() && ipam::Find(block, one.attachment)) continue;
    block.allocations.try_emplace(offset, one.entry);
    block.standby.erase(offset);
  }
}

ipam::BlockView Shown(const BlockState& state) {
  if (IsShownAsWritten(state)) return state.view;
  ipam::Block block = *state.view;
  RestoreEntries(state, block);
  AddHandedOut(state, block);
  const auto apply = [&block](const PendingChange& one) {
    if (!one.has_caller) static_cast<void>(ipam::Apply(one.change, block));
  };
  for (const Round& round : state.rounds) std::ranges::for_each(round.changes, apply);
  std::ranges::for_each(state.queue, apply);
  return std::make_shared<const ipam::Block>(std::move(block));
}

bool Holds(const BlockState& state, const ipam::Attachment& attachment) {
  const auto was_its = [&](const auto& one) { return ipam::AttachmentOf(one.second.wanted) == attachment; };
  const auto is_its = [&](const auto& one) { return one.second.attachment == attachment; };
  return ipam::Find(*state.view, attachment) || std::ranges::any_of(state.to_restore, was_its) ||
         std::ranges::any_of(state.handed_out, is_its);
}

bool IsInDoubt(const BlockState& state, const ipam::Attachment& attachment) {
  const auto is_its = [&](const PendingChange& one) { return one.change.attachment == attachment; };
  return state.in_doubt.contains(attachment) || std::ranges::any_of(state.rounds, [&](const Round& round) {
           return std::ranges::any_of(round.changes, is_its);
         });
}

bool IsGivenBack(const BlockState& state, const ipam::Attachment& attachment) {
  const auto gives_back = [&attachment](const PendingChange& one) {
    const auto* release = std::get_if<ipam::ReleaseAddresses>(&one.change.what);
    return release != nullptr && std::ranges::find(release->attachments, attachment) != release->attachments.end();
  };
  return std::ranges::any_of(state.queue, gives_back) || std::ranges::any_of(state.rounds, [&](const Round& round) {
           return std::ranges::any_of(round.changes, gives_back);
         });
}

std::optional<std::string> FindBrokenInvariant(const BlockState& state) {
  if (state.view == nullptr) return "a block without a version";
  std::set<std::string_view> attachments;
  for (const auto& [offset, one] : state.handed_out) {
    if (!one.is_set_aside() && !attachments.insert(one.attachment).second) {
      return "attachment " + one.attachment + " was handed out two addresses";
    }
  }
  if (!state.is_sending && !state.rounds.empty()) return "rounds without a sender";
  for (std::size_t i = 1; i < state.rounds.size(); ++i) {
    if (state.rounds[i].awaits != Round::Awaits::kNothing) return "two requests of one block are under way";
  }
  if (state.rounds.empty()) {
    if (!state.leaving.empty() || !state.attachments_in_flight.empty())
      return "a batch that is over is still being sent";
    return std::nullopt;
  }
  const Round& round = state.rounds.front();
  if (round.awaits != Round::Awaits::kWrite) return std::nullopt;
  if (round.before == nullptr || round.before->resource_version != round.after.resource_version) {
    return "a patch that does not compare the version it was decided on";
  }
  for (const auto& [offset, one] : state.handed_out) {
    if (!one.is_set_aside() && GivesAway(state, round, offset, one.attachment)) {
      return "a patch gives away an address that was handed out";
    }
  }
  return std::nullopt;
}

CheckAtEnd::~CheckAtEnd() {
  const auto broken = FindBrokenInvariant(state_);
  if (!broken) return;
  std::fprintf(stderr, "berth: block %s: %s\n", state_.view ? state_.view->name.c_str() : "?", broken->c_str());
  BERTH_CHECK(!broken);
}

}  // namespace berth::agent_core
