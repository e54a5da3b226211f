// SPDX-License-Identifier: Apache-2.0
// What OwnBlocks keeps for each block and each waiting change. Private to its two source files.
#pragma once

#include <charconv>
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

// resourceVersions of one kind are ordered numbers (KEP-5504); 0 for anything else.
[[nodiscard]] inline std::uint64_t VersionOf(const ipam::Block& block) {
  std::uint64_t version = 0;
  const std::string& text = block.resource_version;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() ? version : 0;
}

struct OwnBlocks::Waiter {
  Waiter(ipam::BlockEdit wanted, SteadyTime until) : edit(std::move(wanted)), deadline(until) {}

  // A copy: the waiting thread may give up while another sends the change.
  const ipam::BlockEdit edit;
  const SteadyTime deadline;
  bool is_sent = false;  // part of a batch: can't be withdrawn any more
  std::optional<ipam::Expected<ipam::BlockView>> result;
};

struct OwnBlocks::Slot {
  ipam::BlockView view;  // the newest version known, as the API server has it
  bool busy = false;     // a thread is in Commit
  std::deque<std::shared_ptr<Waiter>> queue;
  std::condition_variable changed;

  ipam::BlockView observed;                           // came from a watch while busy
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

// One batch on its way, through as many requests as it takes.
struct OwnBlocks::Round {
  Waiters waiters;           // without a result yet
  SteadyTime deadline;       // of the last of them
  ipam::BlockView base;      // what the next patch is decided on
  bool is_in_doubt = false;  // a patch with these changes may have landed
  int conflicts = 0;
};

}  // namespace berth::agent
