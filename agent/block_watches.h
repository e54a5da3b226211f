// SPDX-License-Identifier: Apache-2.0
// BlockWatches: one watch for each of the node's blocks, which tells OwnBlocks when another program has written the
// block.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/own_blocks.h"
#include "agent/watch_thread.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::agent {

class BlockWatches {
 public:
  // `gone` is called from a watch's thread after a block was deleted. api, clock and own must outlive this object.
  BlockWatches(k8sclient::Api& api, k8sclient::Clock& clock, OwnBlocks& own, std::function<void()> gone)
      : api_(api), clock_(clock), own_(own), gone_(std::move(gone)) {}

  // Starts a watch for each new block, and ends the watches of blocks that are gone. Not thread-safe.
  void Update();

 private:
  [[nodiscard]] std::unique_ptr<WatchThread> Watch(const std::string& block);

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  OwnBlocks& own_;
  std::function<void()> gone_;
  std::map<std::string, std::unique_ptr<WatchThread>> watches_;  // by name of the block
};

}  // namespace berth::agent
