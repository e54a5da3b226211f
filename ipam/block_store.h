// SPDX-License-Identifier: Apache-2.0
// BlockStore: the interface through which the engine reads and writes the cluster. Implemented by direct mode (requests
// to the API server, one after another), by the node agent (memory, and group commit), and by a model for tests.
//
// Every answer may be outdated. This is harmless, because every write is a compare-and-swap, and a change checks the
// newest block before it changes it.
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
  kHint,    // from memory or from the API server's cache; may be outdated
  kLatest,  // the state that the API server stores now
};

// The blocks of this node, or the Shared blocks of all pools.
enum class BlockScope : std::uint8_t { kOwn, kShared };

// An open intent: a patch whose outcome nobody knows yet, although its call or its process has ended.
struct OpenIntent {
  std::string id;  // for CloseIntent
  Attachment attachment;
  Block block;  // name, spec and resourceVersion of the block before the patch; the rest may be empty
};

// The right to claim a block. While it exists, no other call claims a block of the same pool for this node.
struct ClaimTurn {
  std::shared_ptr<void> hold = {};
  // True: the node has new blocks since this call read the blocks, and one of them may have a free address.
  bool look_again = false;
  // True: a recent search found no unclaimed block of the pool, so the call does not search again.
  bool is_all_claimed = false;
};

class BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  virtual ~BlockStore() = default;

  // The name of the node for which the engine works.
  [[nodiscard]] virtual const std::string& Node() const = 0;

  // The pools with these names, in any order. Pools that do not exist are left out. With kLatest the result may end at
  // the first pool that does not exist, because the ADD fails anyway.
  [[nodiscard]] virtual Expected<std::vector<PoolView>> ReadPools(std::span<const std::string> names,
                                                                  Freshness freshness) = 0;

  // The labels of this node (none if the Node object is missing), and of a namespace. Errors of ReadNamespaceLabels:
  // kNotFound: the namespace does not exist.
  [[nodiscard]] virtual Expected<Labels> ReadNodeLabels() = 0;
  [[nodiscard]] virtual Expected<Labels> ReadNamespaceLabels(const std::string& name) = 0;

  // The blocks of this node, or all Shared blocks. A hint is at least as new as this node's last successful write.
  // A store calls HideEntriesOfOthers for every Shared block that it returns.
  [[nodiscard]] virtual Expected<std::vector<BlockView>> ReadBlocks(BlockScope scope, Freshness freshness) = 0;

  // The pool, read at a time when the block existed. An ADD must call PoolOf before it takes an address from the block:
  // the program that created the block may not have known that the pool was gone, and may not have known which
  // addresses the pool withholds. `pool`: the pool as the call knows it.
  // Errors: kInvalid: the pool is gone; errors of reading the pool.
  [[nodiscard]] virtual Expected<PoolView> PoolOf(const PoolView& pool, const BlockView& block) = 0;

  // The CIDRs of all blocks of a space, of all pools and nodes; may be outdated. Two callers: the agent before it
  // claims in advance, and the engine for a claim, if the pool's status shows no unclaimed block, or if several blocks
  // that the engine chose by the status were claimed already.
  [[nodiscard]] virtual Expected<std::vector<Prefix>> ReadBlockCidrs(const std::string& space) = 0;

  // Applies the change to the block by compare-and-swap. After a conflict, applies it to the newest version again,
  // until the write succeeds, the change cannot be applied, or the time limit has passed. `seen`: the version to begin
  // with; without a resourceVersion it only names the block, and Edit reads the block first. Returns the written block,
  // or the block as it was found if the change is in it already.
  // Errors: those of Apply; kNotFound: the block is gone; kUnknownOutcome: the write may have landed, or may still
  // land, and an intent is open; all others: nothing was changed.
  [[nodiscard]] virtual Expected<BlockView> Edit(const BlockView& seen, const Change& change) = 0;

  // Creates the block, which has no entries. If the block exists already for the same node and pool, returns the
  // existing block: the controller, or an earlier request whose answer was lost, may have created it.
  // Errors: kAlreadyExists: the block belongs to another node or pool; kUnknownOutcome: the block may appear later, and
  // nobody needs to settle this, because it holds no address; others.
  [[nodiscard]] virtual Expected<BlockView> Create(const Block& block) = 0;

  // Waits for the right to claim a block. A store that serves one call at a time need not wait. Errors: kTimeout.
  [[nodiscard]] virtual Expected<ClaimTurn> BeginClaim(const Pool& /*pool*/) { return ClaimTurn{}; }
  // The engine calls this if no block of the pool is unclaimed. BeginClaim can then tell this to other calls of the
  // store (is_all_claimed).
  virtual void NoteAllClaimed(const Pool& /*pool*/) {}

  // The open intents that earlier calls of this attachment left.
  [[nodiscard]] virtual Expected<std::vector<OpenIntent>> ReadOpenIntents(const Attachment& attachment) = 0;
  // Closes an intent whose write is settled.
  [[nodiscard]] virtual Expected<void> CloseIntent(const OpenIntent& intent) = 0;
};

// Supplies time and random numbers, and says whether the call may continue.
class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // UNIX time in milliseconds, for times in entries; not for measuring durations.
  [[nodiscard]] virtual std::int64_t UnixMillis() = 0;
  // A uniform random number in [0, bound). Requires: bound > 0.
  [[nodiscard]] virtual Uint128 Random(Uint128 bound) = 0;
  // Waits for `duration`. False: the wait would exceed the call's time limit, or somebody cancelled the call; the wait
  // may then be shorter.
  [[nodiscard]] virtual bool Wait(std::chrono::milliseconds duration) = 0;
  // The engine calls this before an ADD takes an address, creates a block or marks an entry. Errors: the caller is
  // gone, or the call's time limit has passed.
  [[nodiscard]] virtual Expected<void> MayGoOn() = 0;
};

}  // namespace berth::ipam
