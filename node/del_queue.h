// SPDX-License-Identifier: Apache-2.0
// DelQueue: DELs that `berth` has answered while no agent listened, on disk as they would have gone to one. The next
// agent takes them over before it is ready.
//
// Only who has the queue's lock looks at it: `berth` adds a DEL while, with the lock, it finds nobody listening; an
// agent listens before it takes the lock and what is in the queue. So every DEL in it came before any ADD that the
// agent answers, and none comes once that agent has looked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/folder.h"
#include "node/held_file.h"

namespace berth::node {

// About four hundred bytes each: more DELs than a node has pods.
inline constexpr std::size_t kQueueBytesMax = std::size_t{1} << 20;
// Of one: a name in a tenant's configuration may have any length, and shall not fill the queue for all others.
inline constexpr std::size_t kQueuedCallBytesMax = 4096;

class DelQueue {
 public:
  // Waits for the lock until `deadline`, as LockExclusively does. Errors: kUnavailable: not by then; kIo.
  [[nodiscard]] static Expected<DelQueue> Lock(const Folder& state, BootNanos deadline);

  // `call`: a line of text (cni/forward.h). It survives the machine when this returns.
  // Errors: kUnavailable: the queue is full, or the call too long for it; kIo: the caller must not answer success.
  [[nodiscard]] Expected<void> Add(std::string_view call) const;
  // Lines, in the order in which they came; those of processes that died are not whole. Errors: kIo.
  [[nodiscard]] Expected<std::vector<std::string>> Calls() const;
  // A crash of the machine may bring them back. Errors: kIo.
  [[nodiscard]] Expected<void> Clear() const;

 private:
  DelQueue(Folder state, HeldFile lock) : state_(std::move(state)), lock_(std::move(lock)) {}

  Folder state_;
  HeldFile lock_;
};

}  // namespace berth::node
