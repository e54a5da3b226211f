// SPDX-License-Identifier: Apache-2.0
// Block: a part of a pool with the record of who has each of its addresses. The value form of an IPBlock object, the
// truth of the whole system (docs/state.md).
//
// The functions below change a copy in memory and nothing else; what was decided becomes true when a compare-and-swap
// on the object's resourceVersion succeeds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/entry.h"
#include "ipam/offset_set.h"
#include "ipam/pool.h"
#include "ipam/prefix.h"

namespace berth::ipam {

// On every IPBlock from its creation: it goes when the block is empty, so that nobody deletes an address in use.
inline constexpr std::string_view kBlockFinalizer = "ipam.berth.dev/in-use";

struct Block {
  // metadata
  std::string name;
  std::string uid;
  std::string resource_version;  // empty: not created yet
  bool deleting = false;         // has a deletionTimestamp: nothing new goes in
  std::vector<std::string> finalizers;
  // The API server keeps track of who set which field, which makes every write dearer. The next write ends that.
  bool has_managed_fields = false;

  // spec, immutable
  std::string space = std::string(kDefaultSpace);
  std::string pool;
  std::string pool_uid;
  Prefix cidr;
  std::string node;  // empty: Shared

  // beside spec
  std::string agent;       // "<instance>.<counter>" of the agent that writes it; empty: none yet
  std::uint32_t free = 0;  // advice: assignable and without entry when last written
  BlockOffset next = 0;    // where the search for a free address goes on
  std::map<BlockOffset, std::string> allocations;  // entries as stored (entry.h)
  // Without entry, and the node's agent's alone to give: it may answer an ADD with one of these before it has written
  // who got it (docs/adr/0008). Empty where the node holds nothing of the pool.
  OffsetSet standby;

  [[nodiscard]] bool shared() const { return node.empty(); }
  [[nodiscard]] std::size_t used() const { return allocations.size(); }
  [[nodiscard]] BlockOffset size() const { return static_cast<BlockOffset>(cidr.LastOffset()) + 1; }

  friend bool operator==(const Block&, const Block&) = default;
};

// A block as it was seen at one resourceVersion; shared between callers, never changed.
using BlockView = std::shared_ptr<const Block>;

// The object's name: space and "." unless the space is "default", then the CIDR with ":" and "/" as "-"; a leading "0"
// where it would start with "-". So two objects can never cover the same range of a space at one size.
[[nodiscard]] std::string BlockName(std::string_view space, const Prefix& cidr);

// Whether the block is a part of the pool as the pool is cut: of its size, and inside its subnet. One that only claims
// to be may overlap others.
[[nodiscard]] bool IsCutFrom(const Block& block, const Pool& pool);

// Whether addresses of the pool may be taken from it: it is a part of the pool, by name and UID too, and stays.
[[nodiscard]] bool BelongsTo(const Block& block, const Pool& pool);

// An empty block of the pool, ready to be created. `node` empty for Shared.
[[nodiscard]] Block NewBlock(const Pool& pool, const Prefix& cidr, std::string_view node);

// Where the attachment's entry stands.
[[nodiscard]] std::optional<BlockOffset> Find(const Block& block, std::string_view attachment);

// Number of addresses that could be taken now: assignable, without entry or with a cooling entry that is over.
[[nodiscard]] std::uint32_t CountFree(const Block& block, const Pool& pool, std::int64_t now_ms);

// Takes an address for `entry.attachment`: the one it has in this block already, else `requested`, else the next free
// one after `block.next`, round robin, so that an address rests long before it is used again; one on standby only if
// there is no other. Sets `free` and `next`.
// Errors (the block is then unchanged): kExhausted: no free address; kAddressTaken: `requested` is held, cooling,
// reserved, withheld or a gateway; kInvalid: `requested` is not the pool's to give, or the entry is too long;
// kConflict: the block is being deleted or belongs to another pool by now.
[[nodiscard]] Expected<Address> Take(Block& block, const Pool& pool, HeldEntry entry, std::optional<Address> requested,
                                     std::int64_t now_ms);

// The same with an address of `among`, for an ADD that is answered before the block is written. Errors as above.
// Requires: `among` is on standby in the block as the API server has it.
[[nodiscard]] Expected<Address> TakeStandby(Block& block, const Pool& pool, HeldEntry entry, const OffsetSet& among,
                                            std::int64_t now_ms);

// Puts free addresses on standby until there are `wanted`; those that are not the pool's to give any more leave. Sets
// `free` and `next`.
void StandBy(Block& block, const Pool& pool, std::size_t wanted, std::int64_t now_ms);

// Whether somebody has an address of the block: an entry that neither cools nor is reserved.
[[nodiscard]] bool IsHeld(const Block& block);

// What has got an entry is not on standby any more, and nothing is in a block that is being deleted.
void TrimStandby(Block& block);

// Gives the attachment's address back: the entry goes, or cools where it was taken with a cooldown. False: it has none
// here and nothing was changed.
bool Release(Block& block, std::string_view attachment, std::int64_t now_ms);

// Changes the block without changing what it says: moves `next`. A compare-and-swap with it makes sure that no older
// write of which the answer was lost can still succeed.
void Touch(Block& block);

}  // namespace berth::ipam
