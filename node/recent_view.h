// SPDX-License-Identifier: Apache-2.0
// RecentView: files in which a process of berth-direct saves the node's blocks (used for 2 s) and pools (used for 250
// ms), so that the next process need not read them. When many pods start at once, this saves two requests per ADD and
// one per DEL.
//
// The saved blocks may be outdated. Each write names the block's resourceVersion, so the API server refuses a write
// that was decided on an outdated block. The saved blocks contain all writes of this node: under the node's lock, a
// process removes the file before each write and saves it again after the write. An agent saves no blocks, and removes
// the file when it retires. A process ignores files that were saved for another API server.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipam/block.h"
#include "ipam/pool.h"
#include "node/node_directory.h"

namespace berth::node {

// A process uses no saved blocks or pools that are older than this. The limit for pools is short, because a write does
// not compare the pool's version. Pools from the API server's cache may be as old as these 250 ms.
struct RecentLimits {
  std::chrono::milliseconds blocks{2000};
  std::chrono::milliseconds pools{250};
};

class RecentView {
 public:
  // is_kept false: RecentView saves and returns nothing. `directory` must outlive this object.
  RecentView(const NodeDirectory& directory, bool is_kept, RecentLimits limits = {})
      : directory_(directory), is_kept_(is_kept), limits_(limits) {}

  // The saved pools with these names; nothing if one of them is missing.
  [[nodiscard]] std::optional<std::vector<ipam::PoolView>> Pools(std::span<const std::string> names) const;
  // Saves IPPool objects that were read at `at`.
  void NotePools(const std::vector<nlohmann::json>& objects, BootNanos at) const;

  // True if a consistent GET found the block's pool while the block existed, and `pool` is not older than that GET's
  // answer. The pool then exists as long as the block, because the controller removes no pool that has a block, and
  // `pool` withholds every address that was reserved before the block was created. Requires: the lock.
  [[nodiscard]] bool IsPoolProved(const std::string& block_uid, const ipam::Pool& pool) const;
  // Saves a proof for IsPoolProved. `pool`: as the GET found it.
  void NotePoolProved(const std::string& block_uid, const ipam::Pool& pool) const;

  // All saved blocks of this node. Only the first call returns blocks: a process that reads again needs newer blocks.
  // Requires: the lock.
  [[nodiscard]] std::optional<std::vector<ipam::BlockView>> Take();
  // Saves all blocks of this node, listed at `at`. Requires: the lock.
  void NoteAll(const std::vector<ipam::BlockView>& blocks, BootNanos at);
  // Call before a block of this node is written. Removes the saved blocks until NoteWritten gives the block's new
  // content. If a write of another block begins before NoteWritten, this process saves blocks again only after NoteAll.
  // Requires: the lock.
  void BeginWrite(const std::string& block);
  // `block`: the newest version of the block. Does nothing if no write of this block has begun.
  void NoteWritten(const ipam::BlockView& block);
  // Removes the saved blocks, because other programs have written blocks.
  void Forget();
  // Call this when the lock is released: other processes may then write blocks. This object saves no blocks until
  // NoteAll.
  void Drop() { listed_at_.reset(); }

 private:
  void Save() const;

  const NodeDirectory& directory_;
  const bool is_kept_;
  const RecentLimits limits_;
  bool was_taken_ = false;
  std::string writing_;  // name of the block whose write has begun without NoteWritten; empty: none
  // When the API server listed `blocks_`, which is the content of the file now, or after the current write. Empty: this
  // process does not know the content.
  std::optional<BootNanos> listed_at_;
  std::map<std::string, ipam::BlockView> blocks_;
};

}  // namespace berth::node
