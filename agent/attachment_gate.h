// SPDX-License-Identifier: Apache-2.0
// AttachmentGate lets one call per attachment run at a time, and knows which ADDs run or were answered.
//
// If a DEL comes while an ADD of the same attachment runs (the runtime gave up on the ADD), the DEL has to see what the
// ADD leaves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/mutex.h"
#include "ipam/entry.h"
#include "node/node_directory.h"

namespace berth::agent {

// Thread-safe.
class AttachmentGate {
  struct RunningAdd {
    node::BootNanos started;
    std::optional<node::BootNanos> answered = {};
  };
  using RunningAdds = std::multimap<ipam::Attachment, RunningAdd>;

 public:
  // Waits until no other call of the attachment is inside. The caller is inside as long as the returned pointer exists.
  // Returns nullptr at the deadline.
  [[nodiscard]] std::shared_ptr<void> Enter(const ipam::Attachment& attachment,
                                            std::chrono::steady_clock::time_point deadline);

  // Records that an ADD runs. An ADD keeps the HeldAdd from before Enter until the ADD's answer is delivered.
  using HeldAdd = std::shared_ptr<RunningAdds::value_type>;
  [[nodiscard]] HeldAdd HoldAdd(const ipam::Attachment& attachment, node::BootNanos started);
  // Whether an ADD of the attachment has no answer yet, or was answered at `then` or later. The delivery of the answer
  // does not count: the caller may have received the answer, and may have ended, before this process knows.
  [[nodiscard]] bool WasAddRunning(const ipam::Attachment& attachment, node::BootNanos then) const;
  // Whether an ADD of the attachment runs that started after `started`.
  [[nodiscard]] bool IsNewerAddRunning(const ipam::Attachment& attachment, node::BootNanos started) const;

  // Records that the ADD gets an address at `now`: a DEL that started before the ADD must not free this address
  // (WasNewerAddAnswered). The record is kept for at least 660 s, longer than a call may wait (ipam.timeoutSeconds).
  void NoteAnswered(const HeldAdd& add, node::BootNanos now);
  [[nodiscard]] bool WasNewerAddAnswered(const ipam::Attachment& attachment, node::BootNanos started) const;

 private:
  mutable Mutex mutex_;
  std::condition_variable left_;
  std::set<ipam::Attachment> inside_ BERTH_GUARDED_BY(mutex_);
  RunningAdds adds_ BERTH_GUARDED_BY(mutex_);
  struct AnsweredAdds {
    node::BootNanos started = 0;  // the newest start of an answered ADD
    node::BootNanos answered = 0;
  };
  std::map<ipam::Attachment, AnsweredAdds> answered_ BERTH_GUARDED_BY(mutex_);
  std::size_t answered_max_ = 1024;  // beyond this number, records older than 660 s are removed
};

}  // namespace berth::agent
