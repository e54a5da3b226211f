// SPDX-License-Identifier: Apache-2.0
// RecentView: the blocks of this node as the process before this one read or wrote them, at most two seconds ago, and
// pools as one read them, at most a quarter of a second ago. In a burst of pods it saves berth-direct two requests per
// ADD and one per DEL.
//
// It is a hint: writes compare, so that what was decided on an old one conflicts and is decided again. Of this node's
// own writes it is never behind: it is forgotten before each write and noted again after it, all under the node's lock.
// An agent keeps none, and forgets it when it retires. Nor is there one of another API server.
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

// After that it is read anew. Nothing compares what is decided on a pool: that is about as old as what the API server
// itself may answer from its cache.
inline constexpr std::chrono::milliseconds kRecentBlocksMax{2000};
inline constexpr std::chrono::milliseconds kRecentPoolsMax{250};

class RecentView {
 public:
  // Not kept: nothing is ever known, and noting does nothing. directory must outlive this.
  RecentView(const NodeDirectory& directory, bool is_kept) : directory_(directory), is_kept_(is_kept) {}

  // None unless all of them are known.
  [[nodiscard]] std::optional<std::vector<ipam::PoolView>> Pools(std::span<const std::string> names) const;
  // IPPool objects, read at that time.
  void NotePools(const std::vector<nlohmann::json>& objects, BootNanos at) const;

  // A consistent read found the block's pool when the block was there. The pool stays for as long as the block does,
  // and so does this. Requires: the lock.
  [[nodiscard]] bool IsPoolProved(const std::string& block_uid) const;
  void NotePoolProved(const std::string& block_uid) const;

  // All blocks of this node; at most once per call: what comes after the first look has to be news. Requires: the lock.
  [[nodiscard]] std::optional<std::vector<ipam::BlockView>> Take();
  // All blocks of this node, listed at that time. Requires: the lock.
  void NoteAll(const std::vector<ipam::BlockView>& blocks, BootNanos at);
  // A block of this node is about to be written: nothing is known until NoteWritten says what it holds now. A write of
  // which that is never said ends this view for the rest of the call. Requires: the lock.
  void BeginWrite();
  void NoteWritten(const ipam::BlockView& block);
  // What was noted before is void: others have written.
  void Forget();
  // The lock goes: what others write from now on is not known.
  void Drop() { listed_at_.reset(); }

 private:
  void Save() const;

  const NodeDirectory& directory_;
  const bool is_kept_;
  bool was_taken_ = false;
  bool is_writing_ = false;
  // What the file says, or will say after the write under way; empty time: not known in this process.
  std::optional<BootNanos> listed_at_;
  std::map<std::string, ipam::BlockView> blocks_;
};

}  // namespace berth::node
