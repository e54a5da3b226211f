// SPDX-License-Identifier: Apache-2.0
// Entering and leaving the gate.
#include "agent/attachment_gate.h"

namespace berth::agent {

std::shared_ptr<void> AttachmentGate::Enter(const ipam::Attachment& attachment,
                                            std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!left_.wait_until(lock, deadline, [&] { return !inside_.contains(attachment); })) return nullptr;
  inside_.insert(attachment);
  return {this, [this, attachment](void*) {
            const std::scoped_lock leave(mutex_);
            inside_.erase(attachment);
            left_.notify_all();
          }};
}

std::shared_ptr<void> AttachmentGate::HoldAdd(const ipam::Attachment& attachment) {
  const std::scoped_lock lock(mutex_);
  adds_.insert(attachment);
  return {this, [this, attachment](void*) {
            const std::scoped_lock leave(mutex_);
            adds_.erase(adds_.find(attachment));
          }};
}

bool AttachmentGate::IsAddRunning(const ipam::Attachment& attachment) const {
  const std::scoped_lock lock(mutex_);
  return adds_.contains(attachment);
}

}  // namespace berth::agent
