// SPDX-License-Identifier: Apache-2.0
// LeftAlone: blocks of this node that could not be understood, or not be written, when the agent took them over. They
// stop nothing else; but what they may hold, an ADD must not get once more, and a DEL is not over.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "agent/own_blocks.h"
#include "ipam/error.h"
#include "node/node_directory.h"
#include "sync/mutex.h"

namespace berth::agent {

// A block can't be written, or not be understood: that stops nothing else.
[[nodiscard]] bool IsOfOneBlock(ipam::ErrorCode code);

class LeftAlone {
 public:
  // All must outlive this.
  LeftAlone(OwnBlocks& own, const node::NodeDirectory& directory, k8sclient::Clock& clock)
      : own_(own), directory_(directory), clock_(clock) {}

  // Any thread.
  void Set(std::set<std::string> names);
  [[nodiscard]] std::set<std::string> Names() const;
  [[nodiscard]] bool IsEmpty() const { return Names().empty(); }
  // Errors: kUnavailable: one of them holds it, or can't be read now; kIo.
  [[nodiscard]] ipam::Expected<void> MustNotHold(const ipam::Attachment& attachment, SteadyTime deadline) const;

  // Takes over what can be by now; at first every second, later every minute. Of the keeper's thread.
  void TryAgain();

 private:
  OwnBlocks& own_;
  const node::NodeDirectory& directory_;
  k8sclient::Clock& clock_;
  mutable sync::Mutex mutex_;
  std::set<std::string> names_ BERTH_GUARDED_BY(mutex_);
  // The keeper's.
  SteadyTime due_ = SteadyTime::min();
  std::chrono::seconds pause_{1};
};

}  // namespace berth::agent
