// SPDX-License-Identifier: Apache-2.0
// Enters and leaves the gate, and records running and answered ADDs.
#include "agent/attachment_gate.h"

#include <algorithm>

#include "base/mutex.h"

namespace berth::agent {

std::shared_ptr<void> AttachmentGate::Enter(const ipam::Attachment& attachment,
                                            std::chrono::steady_clock::time_point deadline) {
  Lock lock(mutex_);
  if (!left_.wait_until(
          lock.native(), deadline, [&]() BERTH_REQUIRES(mutex_) { return !inside_.contains(attachment); }))
    return nullptr;
  inside_.insert(attachment);
  return {this, [this, attachment](void*) {
            const Lock leave(mutex_);
            inside_.erase(attachment);
            left_.notify_all();
          }};
}

AttachmentGate::HeldAdd AttachmentGate::HoldAdd(const ipam::Attachment& attachment, node::BootNanos started) {
  const Lock lock(mutex_);
  const auto running = adds_.emplace(attachment, RunningAdd{.started = started, .answered = {}});
  return {&*running, [this, running](void*) {
            const Lock leave(mutex_);
            adds_.erase(running);
          }};
}

bool AttachmentGate::WasAddRunning(const ipam::Attachment& attachment, node::BootNanos then) const {
  const Lock lock(mutex_);
  const auto [first, last] = adds_.equal_range(attachment);
  if (std::any_of(first, last, [](const auto& add) { return !add.second.answered; })) return true;
  const auto answered = answered_.find(attachment);
  return answered != answered_.end() && answered->second.answered >= then;
}

bool AttachmentGate::IsNewerAddRunning(const ipam::Attachment& attachment, node::BootNanos started) const {
  const Lock lock(mutex_);
  const auto [first, last] = adds_.equal_range(attachment);
  return std::any_of(first, last, [started](const auto& add) { return add.second.started > started; });
}

void AttachmentGate::NoteAnswered(const HeldAdd& add, node::BootNanos now) {
  constexpr node::BootNanos kKept = 660'000'000'000;
  const Lock lock(mutex_);
  add->second.answered = now;
  AnsweredAdds& newest = answered_[add->first];
  newest.started = std::max(newest.started, add->second.started);
  newest.answered = std::max(newest.answered, now);
  if (answered_.size() <= answered_max_) return;
  std::erase_if(answered_, [now](const auto& one) { return one.second.answered < now - kKept; });
  answered_max_ = std::max<std::size_t>(1024, 2 * answered_.size());
}

bool AttachmentGate::WasNewerAddAnswered(const ipam::Attachment& attachment, node::BootNanos started) const {
  const Lock lock(mutex_);
  const auto found = answered_.find(attachment);
  return found != answered_.end() && found->second.started > started;
}

}  // namespace berth::agent
