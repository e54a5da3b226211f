// SPDX-License-Identifier: Apache-2.0
// Finds which reserved entries to add and which to remove.
#include "reconciler/decide_reserved.h"

#include <algorithm>

#include "ipam/entry.h"
#include "ipam/interval_set.h"
#include "reconciler/decide_drain.h"
#include "reconciler/decide_lost.h"

namespace berth::reconciler {

namespace {

// The ranges that overlap the block, in the order of their reservations' names.
std::vector<ReservedRange> Meeting(const ipam::Block& block, const std::vector<ReservedRange>& reserved) {
  std::vector<ReservedRange> meeting;
  const ipam::AddressRange whole = ipam::AddressRange::Of(block.cidr);
  for (const ReservedRange& item : reserved) {
    if (item.range.first <= whole.last && whole.first <= item.range.last) meeting.push_back(item);
  }
  return meeting;
}

bool Keeps(const std::vector<ReservedRange>& reserved, ipam::Address address, const std::string& reservation) {
  return std::ranges::any_of(reserved, [&](const ReservedRange& item) {
    return item.reservation == reservation && item.range.Contains(address);
  });
}

// Decides about one block. Copies the block only if something changes, because most blocks are as they should be.
class EntryPlan {
 public:
  EntryPlan(const ipam::Block& block, const std::vector<ReservedRange>& reserved, std::int64_t now_ms, bool may_remove)
      : block_(block), reserved_(Meeting(block, reserved)), now_ms_(now_ms), may_remove_(may_remove) {}

  void Decide() {
    for (const auto& [offset, text] : block_.allocations) {
      if (text.starts_with("! ")) DecideReservedEntry(offset, text);
    }
    const ipam::AddressRange whole = ipam::AddressRange::Of(block_.cidr);
    for (const ReservedRange& item : reserved_) {
      const ipam::BlockOffset first = OffsetOf(std::max(item.range.first, whole.first));
      const ipam::BlockOffset last = OffsetOf(std::min(item.range.last, whole.last));
      for (ipam::BlockOffset offset = first; offset <= last; ++offset) DecideKeptAddress(offset);
    }
  }

  [[nodiscard]] ReservedChange Take() && { return std::move(change_); }

 private:
  [[nodiscard]] ipam::BlockOffset OffsetOf(ipam::Address address) const {
    return static_cast<ipam::BlockOffset>(block_.cidr.OffsetOf(address));
  }

  void DecideReservedEntry(ipam::BlockOffset offset, const std::string& text) {
    const ipam::Entry entry = ipam::ParseEntry(text);
    const auto* there = std::get_if<ipam::ReservedEntry>(&entry);
    if (there == nullptr || Keeps(reserved_, block_.cidr.At(offset), there->reservation)) return;
    if (!may_remove_) {
      change_.wants_removal = true;
      return;
    }
    After().allocations.erase(offset);
    Add(offset);
  }

  // Leaves out an address on standby, because a pod may already have it; once the agent knows of the reservation, the
  // agent takes the address off standby. Replaces a cooling entry whose time is over, unless the node's agent still has
  // to read this entry to forget the attachment.
  void DecideKeptAddress(ipam::BlockOffset offset) {
    if (block_.standby.contains(offset)) return;
    const auto found = block_.allocations.find(offset);
    if (found == block_.allocations.end()) {
      Add(offset);
      return;
    }
    const auto until = ipam::CoolingUntil(found->second, now_ms_);
    if (!until) return;
    if (*until > now_ms_) {
      change_.next_ms = std::min(change_.next_ms.value_or(*until), *until);
    } else if (std::get<ipam::CoolingEntry>(ipam::ParseEntry(found->second)).forget.empty()) {
      Add(offset);
    }
  }

  void Add(ipam::BlockOffset offset) {
    const ipam::Address address = block_.cidr.At(offset);
    const auto keeper =
        std::ranges::find_if(reserved_, [&](const ReservedRange& item) { return item.range.Contains(address); });
    if (keeper == reserved_.end()) return;
    auto text = ipam::FormatEntry(ipam::ReservedEntry{.reservation = keeper->reservation});
    if (text) After().allocations[offset] = *std::move(text);
  }

  ipam::Block& After() {
    if (!change_.after) change_.after = block_;
    return *change_.after;
  }

  const ipam::Block& block_;
  std::vector<ReservedRange> reserved_;
  std::int64_t now_ms_;
  bool may_remove_;
  ReservedChange change_;
};

// True if a live pod has an address whose reserved entry is in `before` and not in `after`. The controller will replace
// this reserved entry by the pod's entry (decide_lost.h). If it removed the reserved entry before that, another pod
// could get the address.
bool EndsALostAddress(const ipam::Block& before, const ipam::Block& after, PodAddresses& pods) {
  return pods.AreLostIn(before) && std::ranges::any_of(before.allocations, [&](const auto& item) {
           return !after.allocations.contains(item.first) && pods.IsLost(before, before.cidr.At(item.first));
         });
}

}  // namespace

ReservedChange WithReserved(const ipam::Block& block, const ipam::Pool& pool,
                            const std::vector<ReservedRange>& reserved, std::int64_t now_ms, bool may_remove) {
  EntryPlan plan(block, reserved, now_ms, may_remove);
  plan.Decide();
  ReservedChange change = std::move(plan).Take();
  if (change.after) change.after->free = ipam::CountFree(*change.after, pool, now_ms);
  return change;
}

void DecideReserved(const ReservedScope& scope, const ReservedSpace& space, Decision& decision) {
  const std::int64_t now_ms = scope.now.unix_ms;
  std::vector<ipam::AddressRange> ranges;
  for (const ReservedRange& item : space.reserved) ranges.push_back(item.range);
  const ipam::IntervalSet kept(ranges);
  BlockWrites writes(scope.state, scope.now, decision);
  PodAddresses pod_addresses(scope.world);
  for (const auto& [name, seen] : scope.world.blocks()) {
    if (seen.entries.reserved == 0 && kept.empty()) continue;
    if (seen.space != space.space || seen.block == nullptr || seen.block->deleting) continue;
    if (seen.entries.reserved == 0 && !kept.Overlaps(ipam::AddressRange::Of(seen.cidr))) continue;
    const auto pool = scope.pools.find(seen.pool_uid);
    if (pool == scope.pools.end()) continue;
    const auto with = [&](bool may_remove) {
      return WithReserved(*seen.block, pool->second, space.reserved, now_ms, may_remove);
    };
    ReservedChange change = with(/*may_remove=*/false);
    if (change.wants_removal && space.may_stop_withholding && scope.knows_pods) {
      ReservedChange removal = with(/*may_remove=*/true);
      if (removal.after && !EndsALostAddress(*seen.block, *removal.after, pod_addresses)) {
        if (scope.relisted) {
          change = std::move(removal);
        } else {
          decision.wants_relist.insert(BlockKey(name));
        }
      }
    }
    if (change.next_ms) decision.WakeAt(*change.next_ms);
    if (change.after) writes.Add(ChangeBlock{.before = seen.block, .after = *std::move(change.after)});
    if (writes.IsFull()) return;
  }
}

}  // namespace berth::reconciler
