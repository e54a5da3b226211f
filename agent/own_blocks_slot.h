// SPDX-License-Identifier: Apache-2.0
// What OwnBlocks keeps for each block and each waiting change. Private to its two source files.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "agent/own_blocks.h"

namespace berth::agent {

struct OwnBlocks::Waiter {
  Waiter(ipam::BlockEdit wanted, SteadyTime until, EditDone then = nullptr)
      : edit(std::move(wanted)), deadline(until), done(std::move(then)) {}

  // A copy: the waiting thread may give up while another sends the change.
  const ipam::BlockEdit edit;
  const SteadyTime deadline;
  const EditDone done;   // empty: a thread waits
  SteadyTime due{};      // when it goes out at the latest, if no thread waits
  bool is_sent = false;  // part of a batch: can't be withdrawn any more
  // Of its own, so that an answer wakes those it is for.
  std::condition_variable changed;
  std::optional<ipam::Expected<ipam::BlockView>> result;
};

struct OwnBlocks::Slot {
  std::uint64_t born = 0;  // the generation that it came with
  ipam::BlockView view;    // the newest version known, as the API server has it
  bool busy = false;       // a thread gathers or sends a batch
  std::deque<std::shared_ptr<Waiter>> queue;
  Waiters sent;                     // the batch
  std::condition_variable idle;     // busy has become false
  std::condition_variable arrived;  // the queue is as long as the thread that gathers expects
  std::size_t expected = 0;         // how many threads there were at the end of the last batch, sent and waiting
  std::chrono::steady_clock::duration took{0};  // a patch of this block, smoothed

  ipam::BlockView observed;                           // came from a list while busy
  std::map<ipam::BlockOffset, std::string> vanished;  // held entries that somebody removed: to be written again
  std::set<ipam::Attachment> batch;                   // whose changes are being sent: what they remove has not vanished

  // The version that a write was decided on whose answer was lost, until a newer one is seen or written.
  std::optional<std::string> doubt_version;
  std::set<ipam::Attachment> in_doubt;
};

// The vanished entries go back to where they were, unless somebody else has the address by now. Requires: the mutex.
inline void AddVanished(const OwnBlocks::Slot& slot, ipam::Block& block) {
  for (const auto& [offset, text] : slot.vanished) {
    if (!block.allocations.contains(offset) && !ipam::Find(block, ipam::AttachmentOf(text))) {
      block.allocations[offset] = text;
    }
  }
}

// How many threads wait for one of them.
[[nodiscard]] inline std::size_t CountThreads(const auto& waiters) {
  return static_cast<std::size_t>(std::ranges::count_if(waiters, [](const auto& waiter) { return !waiter->done; }));
}

// One batch on its way, through as many requests as it takes.
struct OwnBlocks::Round {
  Waiters waiters;           // without a result yet
  SteadyTime deadline;       // of the last of them
  ipam::BlockView base;      // what the next patch is decided on
  bool is_in_doubt = false;  // a patch with these changes may have landed
  int conflicts = 0;
};

}  // namespace berth::agent
