// SPDX-License-Identifier: Apache-2.0
// Applies each kind of change to a block.
#include "ipam/change.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace berth::ipam {

namespace {

Expected<void> CheckSame(const TakeAddress& change, const Block& block) {
  if (change.block_uid.empty() || block.uid == change.block_uid) return {};
  return Fail(ErrorCode::kConflict, "block " + block.name + " was deleted and created again meanwhile");
}

struct Applier {
  Block& block;

  Expected<void> operator()(const NoChange& /*change*/) const { return {}; }

  Expected<void> operator()(const TakeAddress& change) const {
    if (auto same = CheckSame(change, block); !same) return same;
    const auto taken = Take(block, *change.pool, change.entry, change.requested, change.now_ms);
    if (!taken) return std::unexpected(taken.error());
    return {};
  }

  Expected<void> operator()(const ReleaseAddresses& change) const {
    for (const Attachment& attachment : change.attachments) {
      static_cast<void>(Release(block, attachment, change.now_ms, change.were_used));
    }
    return {};
  }

  Expected<void> operator()(const MarkSibling& change) const {
    const auto offset = Find(block, change.attachment);
    if (!offset) return Fail(ErrorCode::kConflict, "the attachment's address was freed meanwhile");
    Entry entry = ParseEntry(block.allocations.at(*offset));
    if (auto* held = std::get_if<HeldEntry>(&entry)) held->has_shared_sibling = true;
    auto text = FormatEntry(entry);
    if (!text) return std::unexpected(text.error());
    block.allocations[*offset] = *std::move(text);
    return {};
  }

  Expected<void> operator()(const SweepCooled& change) const {
    const auto swept = std::erase_if(block.allocations, [&change](const auto& one) {
      const auto until = CoolingUntil(one.second, change.now_ms);
      return until && *until <= change.now_ms;
    });
    block.free = std::min(block.size(), block.free + static_cast<std::uint32_t>(swept));
    return {};
  }

  Expected<void> operator()(const SetEntries& change) const {
    for (const auto& [offset, text] : change.texts) {
      block.allocations.erase(offset);
      if (!text.empty()) block.allocations[offset] = text;
    }
    return {};
  }
};

struct Describer {
  std::string operator()(const NoChange& /*change*/) const { return "nothing"; }
  std::string operator()(const TakeAddress& change) const {
    return "take " + change.entry.pod_namespace + "/" + change.entry.pod +
           (change.requested ? " " + change.requested->ToString() : "");
  }
  std::string operator()(const ReleaseAddresses& change) const {
    return "release " + std::to_string(change.attachments.size()) + " attachments";
  }
  std::string operator()(const MarkSibling& /*change*/) const { return "mark the sibling"; }
  std::string operator()(const SweepCooled& /*change*/) const { return "sweep"; }
  std::string operator()(const SetEntries& change) const {
    return "set " + std::to_string(change.texts.size()) + " entries";
  }
};

}  // namespace

Expected<void> Apply(const Change& change, Block& block) { return std::visit(Applier{block}, change.what); }

Expected<void> ApplyOnStandby(const Change& change, Block& block, const OffsetSet& among) {
  const auto* take = std::get_if<TakeAddress>(&change.what);
  BERTH_CHECK(take != nullptr && change.may_take_standby);
  if (auto same = CheckSame(*take, block); !same) return same;
  const auto taken = TakeStandby(block, *take->pool, take->entry, among, take->now_ms);
  if (!taken) return std::unexpected(taken.error());
  return {};
}

void ApplyStandbyPlan(const StandbyPlan& plan, Block& block, std::size_t wanted) {
  if (!plan.block_uid.empty() && block.uid != plan.block_uid) return;  // a new block, perhaps of another pool
  if (plan.pool == nullptr) {
    block.standby.clear();
  } else if (!plan.block_uid.empty() || BelongsTo(block, *plan.pool)) {
    RefillStandby(block, *plan.pool, wanted, plan.now_ms);
  }
}

std::string Describe(const Change& change) { return std::visit(Describer{}, change.what); }

}  // namespace berth::ipam
