// SPDX-License-Identifier: Apache-2.0
// DelQueue: a file with DELs that `berth` has answered while no agent listened. Each line is the text that `berth`
// would have sent to an agent. The next agent moves the DELs to its journal before the agent is ready.
//
// Every process takes the queue's lock before it reads or writes the queue. With the lock, `berth` checks that no agent
// listens, and only then adds a DEL. An agent first listens, then takes the lock and reads the queue. This order has
// two effects: every queued DEL is older than every ADD that the agent answers, and `berth` adds no DEL after the agent
// has read the queue.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/folder.h"
#include "node/held_file.h"

namespace berth::node {

// Room for about 2,500 DELs of about 400 bytes each: more DELs than a node has pods.
inline constexpr std::size_t kQueueBytesMax = std::size_t{1} << 20;
// Limit of one DEL: a name in a tenant's network configuration may have any length, and must not fill the queue.
inline constexpr std::size_t kQueuedCallBytesMax = 4096;

class DelQueue {
 public:
  // Waits for the lock until `deadline`, as LockExclusively does. Errors: kUnavailable: other processes held the lock
  // until `deadline`; kIo.
  [[nodiscard]] static Expected<DelQueue> Lock(const Folder& state, BootNanos deadline);

  // Appends a DEL. `call`: one line of text (cni/forward.h). When Add returns, the DEL survives a crash of the machine.
  // Errors: kUnavailable: the queue is full, or `call` is longer than kQueuedCallBytesMax; kIo. On an error the caller
  // must not answer success.
  [[nodiscard]] Expected<void> Add(std::string_view call) const;
  // The queued lines, oldest first. If a process died while it wrote a line, that line is incomplete. Errors: kIo.
  [[nodiscard]] Expected<std::vector<std::string>> Calls() const;
  // Removes all DELs. After a crash of the machine the DELs may be there again. Errors: kIo.
  [[nodiscard]] Expected<void> Clear() const;

 private:
  DelQueue(Folder state, HeldFile lock) : state_(std::move(state)), lock_(std::move(lock)) {}

  Folder state_;
  HeldFile lock_;
};

}  // namespace berth::node
