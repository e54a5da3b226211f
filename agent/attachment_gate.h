// SPDX-License-Identifier: Apache-2.0
// AttachmentGate: one call at a time for each attachment, and which attachments have an ADD under way.
//
// A DEL that comes while an ADD of the same attachment runs (the runtime gave up on it) must see what that ADD leaves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

#include "ipam/entry.h"

namespace berth::agent {

// Any thread.
class AttachmentGate {
 public:
  // Waits until no other call of the attachment is inside; one is until the returned pointer goes. nullptr: not by
  // then.
  [[nodiscard]] std::shared_ptr<void> Enter(const ipam::Attachment& attachment,
                                            std::chrono::steady_clock::time_point deadline);

  // Says that an ADD runs, from before it waits at the gate until its answer was delivered.
  [[nodiscard]] std::shared_ptr<void> HoldAdd(const ipam::Attachment& attachment);
  [[nodiscard]] bool IsAddRunning(const ipam::Attachment& attachment) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable left_;
  std::set<ipam::Attachment> inside_;
  std::multiset<ipam::Attachment> adds_;
};

}  // namespace berth::agent
