// SPDX-License-Identifier: Apache-2.0
// BlockStore: what the ADD/DEL engine needs of the world. Implemented by direct mode (requests to the API server, one
// after another), by the node agent (memory and group commit) and by tests.
//
// Every answer may be stale: that is harmless, because every write is a compare-and-swap and the engine's changes look
// at the block again before they change it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ipam/block.h"
#include "ipam/change.h"
#include "ipam/entry.h"
#include "ipam/label_selector.h"
#include "ipam/pool.h"

namespace berth::ipam {

enum class Freshness : std::uint8_t {
  kHint,    // whatever is at hand: memory, or the API server's cache
  kLatest,  // as the API server's store has it now
};

// Which blocks: those of this node, or the Shared ones of every pool.
enum class BlockScope : std::uint8_t { kOwn, kShared };

// A write of which the outcome was not known when its process ended.
struct OpenIntent {
  std::string id;  // for CloseIntent
  Attachment attachment;
  Block block;  // as it was to be written; resource_version empty: it was to be created
};

// While it lives, no other call claims a block of the same pool for this node.
struct ClaimTurn {
  std::shared_ptr<void> hold = {};
  // Blocks came since this call read them: one of them may have room.
  bool look_again = false;
  // No block of the pool was free when that was looked up lately: it is not looked up again.
  bool is_all_claimed = false;
};

class BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  virtual ~BlockStore() = default;

  // The node on whose behalf all this happens.
  [[nodiscard]] virtual const std::string& Node() const = 0;

  // The pools of these names; those that do not exist are left out. Order is not kept. With kLatest it may end at the
  // first that does not exist: the ADD is refused for that one.
  [[nodiscard]] virtual Expected<std::vector<PoolView>> ReadPools(std::span<const std::string> names,
                                                                  Freshness freshness) = 0;

  // Labels of this node (a missing Node object has none) and of a namespace (error kNotFound where it does not exist).
  [[nodiscard]] virtual Expected<Labels> ReadNodeLabels() = 0;
  [[nodiscard]] virtual Expected<Labels> ReadNamespaceLabels(const std::string& name) = 0;

  // The blocks of this node, or all Shared blocks. A hint is at least as new as this node's own last successful write.
  [[nodiscard]] virtual Expected<std::vector<BlockView>> ReadBlocks(BlockScope scope, Freshness freshness) = 0;

  // The pool by which an ADD may take from a block, as it was found when the block was there: who created the block may
  // not have known yet that its pool was gone, or what it withholds. `pool` is what the call knows of it.
  // Errors: kInvalid: it is gone; and what reading it answers.
  [[nodiscard]] virtual Expected<PoolView> PoolOf(const PoolView& pool, const BlockView& /*block*/) { return pool; }

  // CIDRs of all blocks of a space, of any pool and node; may be stale. For a claimer that keeps meeting conflicts.
  [[nodiscard]] virtual Expected<std::vector<Prefix>> ReadBlockCidrs(const std::string& space) = 0;

  // Applies the change to the block by compare-and-swap, again on the newest version after a conflict, until it is in,
  // it cannot be applied, or time is over. `seen` is where it starts; without a resourceVersion it only names the
  // block, which is then read first. Returns the block as it was written (or as it was found where nothing needed a
  // change). Errors: those of Apply; kNotFound: the block is gone; kUnknownOutcome: the write may have happened or may
  // still (an intent is open then); others: nothing happened.
  [[nodiscard]] virtual Expected<BlockView> Edit(const BlockView& seen, const Change& change) = 0;

  // Creates the block on behalf of an attachment. Errors: kAlreadyExists; kUnknownOutcome as above; others.
  [[nodiscard]] virtual Expected<BlockView> Create(const Block& block, const Attachment& attachment) = 0;

  // Waits for the turn to claim a block. Where one call runs at a time there is nothing to wait for. Errors: kTimeout.
  [[nodiscard]] virtual Expected<ClaimTurn> BeginClaim(const Pool& /*pool*/) { return ClaimTurn{}; }
  // The CIDRs of all blocks leave none of the pool free. For BeginClaim, where calls share what they know.
  virtual void NoteAllClaimed(const Pool& /*pool*/) {}

  // Intents that earlier calls of this attachment left open.
  [[nodiscard]] virtual Expected<std::vector<OpenIntent>> ReadOpenIntents(const Attachment& attachment) = 0;
  // The intent's write is settled.
  [[nodiscard]] virtual Expected<void> CloseIntent(const OpenIntent& intent) = 0;
};

// Time and chance, and whether it is still worth going on.
class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // UNIX time in milliseconds, for what is recorded; never for measuring.
  [[nodiscard]] virtual std::int64_t UnixMillis() = 0;
  // Uniform in [0, bound). Requires: bound > 0.
  [[nodiscard]] virtual Uint128 Random(Uint128 bound) = 0;
  // Waits that long. False: the call's time would be over, or the call was cancelled; then it did not wait to the end.
  [[nodiscard]] virtual bool Wait(std::chrono::milliseconds duration) = 0;
  // An error once the caller is gone or its time is over: checked before every write of an ADD.
  [[nodiscard]] virtual Expected<void> MayGoOn() = 0;
};

}  // namespace berth::ipam
