// SPDX-License-Identifier: Apache-2.0
// One plan, step by step.
#include "agent_core/plan_patch.h"

#include <algorithm>

namespace berth::agent_core {

namespace {

using HandedOutItem = std::pair<const ipam::BlockOffset, HandedOut>;

// Whether the patch may say who got it.
bool MayGo(const HandedOutItem& handed_out, const Round& round) {
  return round.is_alone ? handed_out.first == round.only : !handed_out.second.is_refused;
}

// What is on standby afterwards, by the newest change that knows the pool: nothing, if the block holds nothing.
void ChooseStandby(const BlockState& state, const Round& round, std::size_t standby, Plan& plan) {
  for (const Waiting& one : plan.applied) {
    if (standby > 0 && one.change.standby) plan.standby_plan = one.change.standby;
  }
  if (standby > 0 && plan.standby_plan) {
    // What the patch may not carry stays on standby beside them (LeaveHandedOut).
    const auto stay = std::ranges::count_if(state.handed_out, [&](const auto& one) { return !MayGo(one, round); });
    ipam::Prepare(*plan.standby_plan, plan.after, standby - std::min(standby, static_cast<std::size_t>(stay)));
  }
  ipam::TrimStandby(plan.after);
  if (!ipam::IsHeld(plan.after)) plan.after.standby.clear();
  // What was handed out and given back rests for one patch: until its note is gone, nobody may get another for it.
  ipam::EraseIf(plan.after.standby, [&state](auto offset) { return state.handed_out.contains(offset); });
}

// Decided with all that was handed out, a patch need not carry all of it: what it may not carry stays on standby. What
// it carries includes what is there already (an answer was lost), or was given back by what was decided.
void LeaveHandedOut(const BlockState& state, const Round& round, Plan& plan) {
  for (const auto& item : state.handed_out) {
    const auto& [offset, one] = item;
    const auto there = one.is_strangers() ? std::optional(offset) : ipam::Find(plan.after, one.attachment);
    // Changed by what was decided: the change must not get lost.
    const bool is_changed = !there || TextAt(plan.after, *there) != one.entry;
    if (MayGo(item, round) || is_changed || TextAt(*plan.before, *there) == one.entry) {
      plan.carried.emplace(offset, one.attachment);
    } else {
      if (*there == offset) plan.after.allocations.erase(offset);
      plan.after.standby.insert(offset);
    }
  }
}

}  // namespace

Plan PlanPatch(const BlockState& state, const Round& round, const PlanOptions& options) {
  Plan plan{.before = state.view,
            .after = *state.view,
            .applied = {},
            .refused = {},
            .carried = {},
            .leaving = {},
            .touched = {},
            .given_back = {},
            .standby_plan = state.standby_plan};
  PutBack(state, plan.after);
  AddHandedOut(state, plan.after);
  for (const Waiting& one : round.changes) {
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
  for (const auto& [offset, attachment] : plan.carried) plan.touched.insert(attachment);
  for (const auto& [offset, text] : plan.before->allocations) {
    const std::string_view attachment = ipam::AttachmentOf(text);
    if (!attachment.empty() && ipam::AttachmentOf(TextAt(plan.after, offset)) != attachment) {
      plan.touched.emplace(attachment);
    }
  }
  for (const auto& [offset, one] : state.overwritten) {
    if (!plan.after.allocations.contains(offset)) plan.given_back.push_back(offset);
  }
  return plan;
}

}  // namespace berth::agent_core
