// SPDX-License-Identifier: Apache-2.0
// LeftAlone: blocks of this node that could not be understood, or not be written, when the agent took them over. They
// stop nothing else; but what they may hold, an ADD must not get once more, and a DEL is not over.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "agent/own_blocks.h"
#include "base/error.h"
#include "base/mutex.h"
#include "node/node_directory.h"

namespace berth::agent {

// A block can't be written, or not be understood: that stops nothing else.
[[nodiscard]] bool IsOfOneBlock(ErrorCode code);

class LeftAlone {
 public:
  // All must outlive this.
  LeftAlone(OwnBlocks& own, const node::NodeDirectory& directory, k8sclient::Clock& clock)
      : own_(own), directory_(directory), clock_(clock) {}

  // Names, and what the API server said of each block when it was listed, as text: more is not understood.
  using Blocks = std::map<std::string, std::string>;

  // Any thread.
  void Set(Blocks blocks);
  [[nodiscard]] std::set<std::string> Names() const;
  // Whether the text of one of them names the attachment, or a note says that it has an address of one.
  [[nodiscard]] bool MayHold(const ipam::Attachment& attachment) const;
  // Errors: kUnavailable: one of them holds it, or can't be read now; kIo.
  [[nodiscard]] Expected<void> MustNotHold(const ipam::Attachment& attachment, SteadyTime deadline) const;

  // Takes over what can be by now; at first every second, later every minute. Of the keeper's thread.
  void TryAgain();

 private:
  OwnBlocks& own_;
  const node::NodeDirectory& directory_;
  k8sclient::Clock& clock_;
  mutable Mutex mutex_;
  Blocks blocks_ BERTH_GUARDED_BY(mutex_);
  // The keeper's.
  SteadyTime due_ = SteadyTime::min();
  std::chrono::seconds pause_{1};
};

}  // namespace berth::agent
