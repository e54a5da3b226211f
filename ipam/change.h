// SPDX-License-Identifier: Apache-2.0
// Change: what one call changes in one block, as a value that can be compared, printed and applied again.
//
// A store applies a change to the newest version of the block that it knows, and writes the result by compare-and-swap.
// After a conflict it applies the change to a newer version. After a lost answer it applies the change to a version
// that may contain the change already. A change must have the same result in both cases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "ipam/offset_set.h"
#include "ipam/pool.h"

namespace berth::ipam {

// Changes nothing. If the store has deferred writes of the block, it sends them.
struct NoChange {
  friend bool operator==(const NoChange&, const NoChange&) = default;
};

// Takes an address for the entry's attachment (Take in block.h).
struct TakeAddress {
  PoolView pool;
  HeldEntry entry;
  std::optional<Address> requested = {};
  std::int64_t now_ms = 0;
  // The change applies only to the block with this UID, because the call's view of the pool may be older than a new
  // block of the same name. Empty: any block.
  std::string block_uid = {};
  friend bool operator==(const TakeAddress&, const TakeAddress&) = default;
};

// Frees the addresses of these attachments.
struct ReleaseAddresses {
  std::vector<Attachment> attachments;
  std::int64_t now_ms = 0;
  bool were_used = true;  // false: no container has had the addresses, so they need not cool
  friend bool operator==(const ReleaseAddresses&, const ReleaseAddresses&) = default;
};

// Adds s=1 to the attachment's entry: the attachment may also hold an address of a Shared block
// (HeldEntry::has_shared_sibling). Fails with kConflict if the attachment has no entry.
struct MarkSibling {
  Attachment attachment;
  friend bool operator==(const MarkSibling&, const MarkSibling&) = default;
};

// Removes cooling entries whose time is over.
struct SweepCooled {
  std::int64_t now_ms = 0;
  friend bool operator==(const SweepCooled&, const SweepCooled&) = default;
};

// For tests only: sets the entries at these offsets, also to texts that no call writes. An empty text removes the
// entry.
struct SetEntries {
  std::map<BlockOffset, std::string> texts;
  friend bool operator==(const SetEntries&, const SetEntries&) = default;
};

// A store puts addresses of the block on standby for later ADDs by this plan (ApplyStandbyPlan).
struct StandbyPlan {
  PoolView pool;  // nullptr: no pool may be used any more, so no address stays on standby
  std::int64_t now_ms = 0;
  std::string block_uid = {};  // only for the block with this UID; empty: for any block of the pool
  friend bool operator==(const StandbyPlan&, const StandbyPlan&) = default;
};

struct Change {
  // The attachment of the call. Empty for a clean-up: if the answer to a clean-up is lost, nobody needs to settle the
  // write.
  Attachment attachment = {};
  std::variant<NoChange, TakeAddress, ReleaseAddresses, MarkSibling, SweepCooled, SetEntries> what = {};
  // True: the store may answer this ADD before it writes the entry, if the store is able to (docs/adr/0008). Requires:
  // TakeAddress.
  bool may_take_standby = false;
  // The store carries out this plan in the same write as the change.
  std::optional<StandbyPlan> standby = {};
  // True: the store writes even if nothing changes, unless it knows that no write is in doubt. Reason: an older write
  // of this attachment may still land, and only a later successful write prevents this.
  bool fence = false;

  friend bool operator==(const Change&, const Change&) = default;
};

// Applies the change to the block. On an error the block is unchanged.
[[nodiscard]] Expected<void> Apply(const Change& change, Block& block);

// Like Apply, but takes one of the offsets `among`, which are on standby. Requires: may_take_standby.
[[nodiscard]] Expected<void> ApplyOnStandby(const Change& change, Block& block, const OffsetSet& among);

// Refills the block's standby up to `wanted` addresses (RefillStandby). Without plan.pool, clears the standby. Changes
// nothing if the block has another UID than plan.block_uid, or if plan.block_uid is empty and the block does not belong
// to the pool.
void ApplyStandbyPlan(const StandbyPlan& plan, Block& block, std::size_t wanted);

// For logs and tests: "take team-a/web-1", "release 2 attachments".
[[nodiscard]] std::string Describe(const Change& change);

}  // namespace berth::ipam
