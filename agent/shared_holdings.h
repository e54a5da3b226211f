// SPDX-License-Identifier: Apache-2.0
// SharedHoldings: the attachments of this node that have entries in Shared blocks. With it, a DEL of an unknown
// attachment need not list the Shared blocks each time.
//
// A list is valid until this agent writes a Shared block, because other programs do not add entries of this node.
// Exception: the controller writes lost entries again, but gives them attachments that no DEL names.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "base/mutex.h"
#include "ipam/block_store.h"
#include "ipam/entry.h"

namespace berth::agent {

// Thread-safe.
class SharedHoldings {
 public:
  // Call NoteWrite when a write of a Shared block begins, and when it ends, whatever its outcome.
  void NoteWrite() { ++writes_; }
  // Returns how often NoteWrite was called.
  [[nodiscard]] std::uint64_t Writes() const { return writes_; }

  // Takes a list of all Shared blocks, which shows every write that had ended when the list began. `writes`: value of
  // Writes() before the list.
  void Note(std::uint64_t writes, const std::string& node, std::span<const ipam::BlockView> blocks);

  // Whether a valid list shows no entry of the attachment. The caller has to read the attachment's intents before.
  // False: there is an entry, or it is not known.
  [[nodiscard]] bool HasNone(const ipam::Attachment& attachment) const;

 private:
  std::atomic<std::uint64_t> writes_ = 1;
  mutable Mutex mutex_;
  std::uint64_t noted_at_ BERTH_GUARDED_BY(mutex_) = 0;
  std::set<ipam::Attachment> attachments_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::agent
