// SPDX-License-Identifier: Apache-2.0
// PlanPatch applies the changes of a round to the block, and chooses the addresses on standby.
#include "agent_core/plan_patch.h"

#include <algorithm>

namespace berth::agent_core {

namespace {

using HandedOutItem = std::pair<const ipam::BlockOffset, HandedOut>;

// True: the round's patch may carry the entry of the handed-out address.
bool MayGo(const HandedOutItem& handed_out, const Round& round) {
  return round.is_alone ? handed_out.first == round.only : !handed_out.second.is_refused;
}

// Chooses the addresses on standby by the newest change that knows the pool. A block without held entries has no
// standby.
void ChooseStandby(const BlockState& state, const Round& round, std::size_t standby, Plan& plan) {
  for (const PendingChange& one : plan.applied) {
    if (one.change.standby) plan.standby_plan = one.change.standby;
  }
  if (standby > 0 && plan.standby_plan) {
    // Leave room for the addresses that the patch may not carry: LeaveHandedOut puts them back on standby.
    const auto stay = std::ranges::count_if(state.handed_out, [&](const auto& one) { return !MayGo(one, round); });
    ipam::ApplyStandbyPlan(*plan.standby_plan, plan.after, standby - std::min(standby, static_cast<std::size_t>(stay)));
  }
  ipam::TrimStandby(plan.after);
  if (!ipam::HasHeldEntry(plan.after)) plan.after.standby.clear();
  // An address that was handed out and given back stays off standby for one patch: no other pod may get it while its
  // note exists.
  ipam::EraseIf(plan.after.standby, [&state](auto offset) { return state.handed_out.contains(offset); });
}

// plan.after has the entries of all handed-out addresses. Removes the entries that the patch may not carry, and puts
// their addresses back on standby. The patch carries an address also if its entry is written already (an answer was
// lost), or if a change of the round has changed or removed the entry.
void LeaveHandedOut(const BlockState& state, const Round& round, Plan& plan) {
  for (const auto& item : state.handed_out) {
    const auto& [offset, one] = item;
    const auto there = one.is_set_aside() ? std::optional(offset) : ipam::Find(plan.after, one.attachment);
    // A change of the round changed or removed the entry, and must not get lost.
    const bool is_changed = !there || TextAt(plan.after, *there) != one.entry;
    if (MayGo(item, round) || is_changed || TextAt(*plan.before, *there) == one.entry) {
      plan.carried.insert(offset);
    } else {
      if (*there == offset) plan.after.allocations.erase(offset);
      plan.after.standby.insert(offset);
    }
  }
}

}  // namespace

Plan PlanPatch(const BlockState& state, const Round& round, const PlanOptions& options) {
  Plan plan{.before = state.view, .after = *state.view, .standby_plan = state.standby_plan};
  RestoreEntries(state, plan.after);
  AddHandedOut(state, plan.after);
  for (const PendingChange& one : round.changes) {
    if (auto applied = ipam::Apply(one.change, plan.after)) {
      plan.applied.push_back(one);
    } else {
      plan.refused.emplace_back(one, std::move(applied.error()));
    }
  }
  if (!options.agent.empty()) plan.after.agent = options.agent;
  ChooseStandby(state, round, options.standby, plan);
  LeaveHandedOut(state, round, plan);
  for (const ipam::BlockOffset offset : plan.before->standby) {
    if (!plan.after.standby.contains(offset)) plan.leaving.insert(offset);
  }
  for (const ipam::BlockOffset offset : plan.carried) plan.touched.insert(state.handed_out.at(offset).attachment);
  for (const auto& [offset, text] : plan.before->allocations) {
    const std::string_view attachment = ipam::AttachmentOf(text);
    if (!attachment.empty() && ipam::AttachmentOf(TextAt(plan.after, offset)) != attachment) {
      plan.touched.emplace(attachment);
    }
  }
  for (const auto& [offset, one] : state.to_restore) {
    if (!plan.after.allocations.contains(offset)) plan.given_back.push_back(offset);
  }
  return plan;
}

}  // namespace berth::agent_core
