// SPDX-License-Identifier: Apache-2.0
// Block: a part of a pool, with the record of which attachment has which of its addresses. The C++ form of an IPBlock
// object, which is the record of the whole system (docs/state.md).
//
// The functions below change only a copy in memory. A change takes effect when a compare-and-swap on the object's
// resourceVersion succeeds.
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

// Every new IPBlock has this finalizer. The controller removes it only from an empty block, so nobody can delete an
// address in use.
inline constexpr std::string_view kBlockFinalizer = "ipam.berth.dev/in-use";

struct Block {
  // metadata
  std::string name;
  std::string uid;
  std::string resource_version;  // empty: unknown, or the block is not created yet
  bool deleting = false;         // has a deletionTimestamp: no pod gets a further address
  std::vector<std::string> finalizers;
  // True: the object has metadata.managedFields, where the API server records which client set which field. They make
  // each write slower. The next write removes them.
  bool has_managed_fields = false;

  // spec, immutable
  std::string space = std::string(kDefaultSpace);
  std::string pool;
  std::string pool_uid;
  Prefix cidr;
  std::string node;  // empty: the block is Shared

  // beside spec
  std::string agent;       // "<instance>.<counter>" of the agent that created or last fenced the block; empty: none
  std::uint32_t free = 0;  // may be outdated: free addresses at the last write
  BlockOffset next = 0;    // where the next search for a free address starts
  std::map<BlockOffset, std::string> allocations;  // entries in their stored form (entry.h)
  // Addresses on standby: they have no entry, and only the node's agent may give them to pods. The agent may answer an
  // ADD with such an address before it writes the entry (docs/adr/0008). Empty while no pod has an address of the
  // block.
  OffsetSet standby;

  [[nodiscard]] bool shared() const { return node.empty(); }
  [[nodiscard]] std::size_t used() const { return allocations.size(); }
  [[nodiscard]] BlockOffset size() const { return static_cast<BlockOffset>(cidr.LastOffset()) + 1; }

  friend bool operator==(const Block&, const Block&) = default;
};

// A block as it was at one resourceVersion; shared between callers, never changed.
using BlockView = std::shared_ptr<const Block>;

// The object's name. If the space is not "default", the name begins with the space and ".". Then comes the CIDR, with
// "-" for ":" and "/". If the CIDR's part would begin with "-", BlockName puts a "0" before it. Two blocks of one space
// and size can never cover the same range, because both would have the same name.
[[nodiscard]] std::string BlockName(std::string_view space, const Prefix& cidr);

// True: the block has the pool's space and block size, and lies in the pool's subnet. A block that names the pool but
// does not fit it may overlap other blocks.
[[nodiscard]] bool FitsPool(const Block& block, const Pool& pool);

// True: an ADD may take addresses of the pool from the block. The block names the pool with its UID, FitsPool is true,
// and the block is not being deleted.
[[nodiscard]] bool BelongsTo(const Block& block, const Pool& pool);

// An empty block of the pool, for creation. Empty `node`: a Shared block.
[[nodiscard]] Block NewBlock(const Pool& pool, const Prefix& cidr, std::string_view node);

// The offset of the attachment's entry.
[[nodiscard]] std::optional<BlockOffset> Find(const Block& block, std::string_view attachment);

// Number of free addresses: assignable, and without entry or with a cooling entry whose time is over.
[[nodiscard]] std::uint32_t CountFree(const Block& block, const Pool& pool, std::int64_t now_ms);

// Takes an address for `entry.attachment`: the address that the attachment already has in this block; otherwise
// `requested`; otherwise the next free address from `block.next` on, so that a freed address stays unused for long.
// Takes an address on standby only if no other address is free, or if the address is `requested`. Sets `free`. If the
// address was not requested, also sets `next`. Errors (the block is then unchanged): kExhausted: no free address;
// kAddressTaken: `requested` is held, cooling, reserved, withheld or a gateway; kInvalid: the pool may not give
// `requested`, or the entry is too long; kConflict: the block is being deleted, or belongs to another pool by now.
[[nodiscard]] Expected<Address> Take(Block& block, const Pool& pool, HeldEntry entry, std::optional<Address> requested,
                                     std::int64_t now_ms);

// Like Take, but takes an address of `among`, and does not change `next`. For an ADD that the agent answers before it
// writes the block. Errors: like Take.
// Requires: the block in the API server has `among` on standby.
[[nodiscard]] Expected<Address> TakeStandby(Block& block, const Pool& pool, HeldEntry entry, const OffsetSet& among,
                                            std::int64_t now_ms);

// Removes from standby the addresses that the pool may not give any more. Then puts addresses without an entry on
// standby until `wanted` addresses are on standby, or no such address is left. Sets `free` and `next`.
void RefillStandby(Block& block, const Pool& pool, std::size_t wanted, std::int64_t now_ms);

// True: the block has an entry that is neither cooling nor reserved, so a pod may have an address of the block.
[[nodiscard]] bool HasHeldEntry(const Block& block);

// Removes from standby the addresses that have an entry; if the block is being deleted, all addresses.
void TrimStandby(Block& block);

// Frees the attachment's address: removes the entry, or replaces it by a cooling entry if the address was taken with a
// cooldown and `was_used`. False: the attachment has no entry in this block, and nothing was changed.
bool Release(Block& block, std::string_view attachment, std::int64_t now_ms, bool was_used = true);

// In a Shared block: replaces each held entry of another node, and each entry that cannot be parsed, by kHiddenEntry,
// which counts as held and has no attachment. Reason: whoever has another node's token can write an entry with a copied
// attachment, and Find must return this node's entry, so that a node frees only its own entries. The short text also
// saves memory.
inline constexpr std::string_view kHiddenEntry = "?";
void HideEntriesOfOthers(Block& block, std::string_view node);

// Changes only `next`, so that the object changes although all entries stay the same. When a compare-and-swap of this
// change succeeds, an older write whose answer was lost can no longer land.
void Touch(Block& block);

}  // namespace berth::ipam
