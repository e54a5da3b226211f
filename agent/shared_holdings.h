// SPDX-License-Identifier: Apache-2.0
// SharedHoldings: which attachments of this node have entries in Shared blocks, so that a DEL of something unknown need
// not ask the API server each time.
//
// What a list said holds as long as this agent has written nothing since. Others only take entries of this node away,
// but for the controller, which puts back lost ones under attachments that no DEL names.
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

// Any thread.
class SharedHoldings {
 public:
  // A write of a Shared block begins, or has ended, however it has.
  void NoteWrite() { ++writes_; }
  // How many did.
  [[nodiscard]] std::uint64_t Writes() const { return writes_; }

  // From a list of all Shared blocks, not older than any write that had ended by then; `writes` is from before the
  // list.
  void Note(std::uint64_t writes, const std::string& node, std::span<const ipam::BlockView> blocks);

  // Whether a list says that there is none. Read the attachment's intents before. False: unknown, or there is.
  [[nodiscard]] bool HasNone(const ipam::Attachment& attachment) const;

 private:
  std::atomic<std::uint64_t> writes_ = 1;
  mutable Mutex mutex_;
  std::uint64_t noted_at_ BERTH_GUARDED_BY(mutex_) = 0;
  std::set<ipam::Attachment> attachments_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::agent
