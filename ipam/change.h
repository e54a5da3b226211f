// SPDX-License-Identifier: Apache-2.0
// Change: what one call wants of one block, as a value that can be compared, printed and applied again.
//
// A store applies a change to the newest version it knows and writes the result by compare-and-swap. After a conflict
// it applies the change to a newer version. After a lost answer it applies the change to a version that may or may not
// hold it already. So each change comes to the same end from either.
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

// Nothing of its own. A store that keeps other writes back sends them with it.
struct NoChange {
  friend bool operator==(const NoChange&, const NoChange&) = default;
};

// Takes an address for the entry's attachment (block.h, Take).
struct TakeAddress {
  PoolView pool;
  HeldEntry entry;
  std::optional<Address> requested = {};
  std::int64_t now_ms = 0;
  // The block has to be the one with this UID: what is known of the pool may be older than a block that came in its
  // place. Empty: any.
  std::string block_uid = {};
  // The block has to be of this node ("": Shared) and of the pool; if not, the change fails with kAlreadyExists.
  std::optional<std::string> of_node = {};
  // If what the attachment has in the block is not the pool's to give any more, gives it back and takes anew.
  bool replaces = false;
  friend bool operator==(const TakeAddress&, const TakeAddress&) = default;
};

// Gives back what these attachments have.
struct ReleaseAddresses {
  std::vector<Attachment> attachments;
  std::int64_t now_ms = 0;
  friend bool operator==(const ReleaseAddresses&, const ReleaseAddresses&) = default;
};

// Marks the attachment's entry: it may hold an address in a Shared block too (HeldEntry::has_shared_sibling).
// Fails with kConflict if the attachment has no entry.
struct MarkSibling {
  Attachment attachment;
  friend bool operator==(const MarkSibling&, const MarkSibling&) = default;
};

// Removes the cooling entries whose time is over.
struct SweepCooled {
  std::int64_t now_ms = 0;
  friend bool operator==(const SweepCooled&, const SweepCooled&) = default;
};

// For tests, which write what no call writes: these texts stand at these offsets; an empty text: no entry.
struct SetEntries {
  std::map<BlockOffset, std::string> texts;
  friend bool operator==(const SetEntries&, const SetEntries&) = default;
};

// Prepares the block for the ADDs to come: which of its addresses are on standby.
struct StandbyPlan {
  PoolView pool;  // nullptr: no pool may be used any more, so nothing is on standby
  std::int64_t now_ms = 0;
  std::string block_uid = {};  // of the block that it is made for; empty: of any block of the pool
  friend bool operator==(const StandbyPlan&, const StandbyPlan&) = default;
};

struct Change {
  // On whose behalf; empty for a clean-up that nobody needs to settle when its answer is lost.
  Attachment attachment = {};
  std::variant<NoChange, TakeAddress, ReleaseAddresses, MarkSibling, SweepCooled, SetEntries> what = {};
  // Of an ADD that may be answered before it is written, by a store that can (docs/adr/0008). Requires: TakeAddress.
  bool may_take_standby = false;
  // Sent along with changes of the block.
  std::optional<StandbyPlan> standby = {};
  // Write even if nothing changes, unless it is known that no write is under way: an older one of this attachment may
  // be, and only a successful one after it makes sure that it never lands.
  bool fence = false;

  friend bool operator==(const Change&, const Change&) = default;
};

// Changes the block as it should be, or says why not and leaves it as it was.
[[nodiscard]] Expected<void> Apply(const Change& change, Block& block);

// As Apply, but takes one of these offsets, which are on standby. Requires: may_take_standby.
[[nodiscard]] Expected<void> ApplyOnStandby(const Change& change, Block& block, const OffsetSet& among);

// Puts up to `wanted` addresses on standby as planned.
void Prepare(const StandbyPlan& plan, Block& block, std::size_t wanted);

// For logs and tests: "take team-a/web-1", "release 2 attachments".
[[nodiscard]] std::string Describe(const Change& change);

}  // namespace berth::ipam
