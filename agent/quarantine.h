// SPDX-License-Identifier: Apache-2.0
// Quarantine: the quarantined blocks, which are blocks of this node that the agent could not parse or write when it
// took over the node. The agent serves its other blocks. An ADD must not duplicate what the quarantined blocks may
// hold; a DEL stays pending.
#pragma once

#include <map>
#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "agent/own_blocks.h"
#include "agent_core/retry_pause.h"
#include "base/error.h"
#include "base/mutex.h"
#include "k8sclient/api.h"
#include "node/node_directory.h"

namespace berth::agent {

class Quarantine {
 public:
  // api, own, directory and clock must outlive this object.
  Quarantine(k8sclient::Api& api, OwnBlocks& own, const node::NodeDirectory& directory, k8sclient::Clock& clock)
      : api_(api), own_(own), directory_(directory), clock_(clock) {}

  // By name: the newest known text of each block, because the agent may be unable to parse the block.
  using Blocks = std::map<std::string, std::string>;

  // Set, Names, MayHold and MustNotHold are thread-safe.
  void Set(Blocks blocks);
  [[nodiscard]] std::set<std::string> Names() const;
  // Whether the text of a quarantined block contains the attachment, or a note says that the attachment has an address
  // of a quarantined block. True if a block is quarantined and the notes cannot be read.
  [[nodiscard]] bool MayHold(const ipam::Attachment& attachment) const;
  // Like MayHold, but reads the quarantined blocks before. Errors: kUnavailable: a quarantined block may hold the
  // attachment, or the API server does not answer; kIo.
  [[nodiscard]] Expected<void> MustNotHold(const ipam::Attachment& attachment, SteadyTime deadline);

  // Takes over the blocks that can be read and written now. Waits between two attempts as RetryPause says. Called by
  // the maintenance loop.
  void TryAgain();

 private:
  // Reads the block, and stores its text: a late write of an earlier agent may have landed since the last text.
  [[nodiscard]] Expected<nlohmann::json> Read(const std::string& name, SteadyTime deadline) BERTH_EXCLUDES(mutex_);

  k8sclient::Api& api_;
  OwnBlocks& own_;
  const node::NodeDirectory& directory_;
  k8sclient::Clock& clock_;
  mutable Mutex mutex_;
  Blocks blocks_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> read_versions_ BERTH_GUARDED_BY(mutex_);  // version of each stored text
  agent_core::RetryPause retry_pause_;                                           // used only by the maintenance loop
};

}  // namespace berth::agent
