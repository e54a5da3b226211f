// SPDX-License-Identifier: Apache-2.0
// SharedHoldings: which attachments of this node have entries in Shared blocks, so that a DEL of something unknown need
// not ask the API server each time.
//
// What a list said holds as long as this node has written nothing since: every write of a Shared block by a process of
// this node raises NodeDirectory's version before its intent is closed. Others only take such entries away.
#pragma once

#include <mutex>
#include <set>
#include <span>
#include <string>

#include "ipam/block_store.h"
#include "ipam/entry.h"

namespace berth::agent {

// Any thread.
class SharedHoldings {
 public:
  // From a list of all Shared blocks, made when `version` (NodeDirectory::LastWrite) was this node's last write, and
  // not older than that. Empty: not known, all is forgotten.
  void Note(const std::string& version, const std::string& node, std::span<const ipam::BlockView> blocks);

  // Whether a list says that there is none. Read `version` after the attachment's intents. False: unknown, or there is.
  [[nodiscard]] bool HasNone(const ipam::Attachment& attachment, const std::string& version) const;

 private:
  mutable std::mutex mutex_;
  std::string version_;
  std::set<ipam::Attachment> attachments_;
};

}  // namespace berth::agent
