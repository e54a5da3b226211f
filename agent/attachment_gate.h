// SPDX-License-Identifier: Apache-2.0
// AttachmentGate: one call at a time for each attachment, and which ADDs of it are under way or were answered.
//
// A DEL that comes while an ADD of the same attachment runs (the runtime gave up on it) must see what that ADD leaves.
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

// Any thread.
class AttachmentGate {
  struct RunningAdd {
    node::BootNanos started;
    std::optional<node::BootNanos> answered = {};
  };
  using RunningAdds = std::multimap<ipam::Attachment, RunningAdd>;

 public:
  // Waits until no other call of the attachment is inside; one is until the returned pointer goes. nullptr: not by
  // then.
  [[nodiscard]] std::shared_ptr<void> Enter(const ipam::Attachment& attachment,
                                            std::chrono::steady_clock::time_point deadline);

  // Says that an ADD runs, from before it waits at the gate until its answer was delivered.
  using HeldAdd = std::shared_ptr<RunningAdds::value_type>;
  [[nodiscard]] HeldAdd HoldAdd(const ipam::Attachment& attachment, node::BootNanos started);
  // Whether one runs, or is through, that had not been answered by then. (What counts is not when the answer was
  // delivered: its caller may have it, and have ended, before this process knows.)
  [[nodiscard]] bool WasAddRunning(const ipam::Attachment& attachment, node::BootNanos then) const;
  // Whether one runs that was started later than that.
  [[nodiscard]] bool IsNewerAddRunning(const ipam::Attachment& attachment, node::BootNanos started) const;

  // An ADD is told an address from `now` on: a DEL that was started before the ADD leaves that alone. Kept for five
  // minutes at least, longer than any call waits.
  void NoteAnswered(const HeldAdd& add, node::BootNanos now);
  [[nodiscard]] bool WasNewerAddAnswered(const ipam::Attachment& attachment, node::BootNanos started) const;

 private:
  mutable Mutex mutex_;
  std::condition_variable left_;
  std::set<ipam::Attachment> inside_ BERTH_GUARDED_BY(mutex_);
  RunningAdds adds_ BERTH_GUARDED_BY(mutex_);
  struct AnsweredAdds {
    node::BootNanos started = 0;  // the newest of each
    node::BootNanos answered = 0;
  };
  std::map<ipam::Attachment, AnsweredAdds> answered_ BERTH_GUARDED_BY(mutex_);
  std::size_t answered_max_ = 1024;  // then the old ones are forgotten
};

}  // namespace berth::agent
