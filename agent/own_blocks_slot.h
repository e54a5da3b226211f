// SPDX-License-Identifier: Apache-2.0
// What OwnBlocks keeps for each block and each waiting change. Private to its source files. Its mutex guards all that
// changes here; an annotation cannot name it, as these do not know whose they are.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "agent/own_blocks.h"

namespace berth::agent {

// How long what nobody waits for may wait for others: as long as a burst's calls come after one another, and too short
// for a person to see.
inline constexpr std::chrono::milliseconds kLinger{20};
// Where a patch takes longer than that, the API server has much to do: what comes while one would be under way shares
// it.
inline constexpr std::chrono::milliseconds kLingerMax{250};
inline constexpr std::chrono::milliseconds kSendNow{0};

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
  std::optional<Expected<ipam::BlockView>> result;
};

// An agent that this node's files do not know and that wrote a block, as one of another machine with this node's name.
struct OwnBlocks::Stranger {
  std::string agent;       // as it stood there
  SteadyTime met;          // or when this agent wrote over it
  bool came_back = false;  // after that
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

  [[nodiscard]] std::chrono::milliseconds linger() const {
    return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(took), kLinger, kLingerMax);
  }

  ipam::BlockView observed;          // came from a list while busy
  std::set<ipam::Attachment> batch;  // whose changes are being sent: what they remove has not vanished

  // What somebody removed without a mark, or a backup brought back as it once was. An empty text: no entry.
  struct Overwritten {
    std::string by;  // what was seen there
    std::string was;
  };
  std::map<ipam::BlockOffset, Overwritten> overwritten;  // to be put back

  // Goes with every patch until it is in.
  struct HandedOut {
    ipam::Attachment attachment;  // empty: a stranger has it on standby
    std::string entry;
    std::function<void()> settled;
    bool is_refused = false;  // the API server refuses it: it is not sent with others
  };
  std::map<ipam::BlockOffset, HandedOut> handed_out;
  StandBy stand_by;         // of the newest edit that knew the pool: DELs do not
  ipam::OffsetSet leaving;  // what the patch in flight gives away or takes off standby
  bool is_failing = false;  // the last patch did not succeed
  std::chrono::nanoseconds proved = std::chrono::nanoseconds::min();  // the last that did was sent then, since boot
  bool must_fence = false;  // the next patch raises `agent`: it is to succeed before anything is handed out
  std::optional<Stranger> stranger;
  // Both have written over the other twice: neither changes the block until a minute went by.
  [[nodiscard]] bool is_contested() const { return stranger && stranger->came_back && !must_fence; }

  // The version that a write was decided on whose answer was lost, until a newer one is seen or written.
  std::optional<std::string> doubt_version;
  std::set<ipam::Attachment> in_doubt;
};

[[nodiscard]] inline std::string TextAt(const ipam::Block& block, ipam::BlockOffset offset) {
  const auto found = block.allocations.find(offset);
  return found == block.allocations.end() ? std::string() : found->second;
}

// What was overwritten is what it was, unless somebody else has the address by now. All that goes does so first: an
// attachment may have moved. Requires: the mutex.
inline void PutBack(const OwnBlocks::Slot& slot, ipam::Block& block) {
  for (const auto& [offset, one] : slot.overwritten) {
    if (!one.by.empty() && TextAt(block, offset) == one.by) block.allocations.erase(offset);
  }
  for (const auto& [offset, one] : slot.overwritten) {
    const std::string_view attachment = ipam::AttachmentOf(one.was);
    const bool is_elsewhere = !attachment.empty() && ipam::Find(block, attachment);
    if (!one.was.empty() && !is_elsewhere) block.allocations.try_emplace(offset, one.was);
  }
}

// Whether a patch may say who got it. `is_alone`: nothing goes along but `only`; else what is not refused.
inline bool MayGo(const std::pair<const ipam::BlockOffset, OwnBlocks::Slot::HandedOut>& handed_out, bool is_alone,
                  std::optional<ipam::BlockOffset> only) {
  return is_alone ? handed_out.first == only : !handed_out.second.is_refused;
}

// What was handed out is where it was handed out. Requires: the mutex.
inline void AddHandedOut(const OwnBlocks::Slot& slot, ipam::Block& block) {
  for (const auto& [offset, one] : slot.handed_out) {
    if (!one.attachment.empty() && ipam::Find(block, one.attachment)) continue;
    block.allocations.try_emplace(offset, one.entry);
    block.standby.erase(offset);
  }
}

// Decided with all that was handed out, a patch need not carry all of it: what it may not carry stays on standby.
// Returns what is carried, is there already (an answer was lost), or was given back by what was decided.
inline std::map<ipam::BlockOffset, ipam::Attachment> LeaveHandedOut(
    const std::map<ipam::BlockOffset, OwnBlocks::Slot::HandedOut>& handed_out, bool is_alone,
    std::optional<ipam::BlockOffset> only, const ipam::Block& base, ipam::Block& block) {
  std::map<ipam::BlockOffset, ipam::Attachment> carried;
  for (const auto& item : handed_out) {
    const auto& [offset, one] = item;
    const auto there = one.attachment.empty() ? std::optional(offset) : ipam::Find(block, one.attachment);
    // Changed by what was decided: the change must not get lost.
    const bool is_changed = !there || TextAt(block, *there) != one.entry;
    if (MayGo(item, is_alone, only) || is_changed || TextAt(base, *there) == one.entry) {
      carried.emplace(offset, one.attachment);
    } else {
      block.allocations.erase(*there);
      block.standby.insert(*there);
    }
  }
  return carried;
}

// Of a waiter: nobody waits for it, and it is not done.
inline constexpr auto kIsLate = [](const auto& waiter) { return waiter->done && !waiter->result; };

// How many threads wait for one of them.
[[nodiscard]] inline std::size_t CountThreads(const auto& waiters) {
  return static_cast<std::size_t>(std::ranges::count_if(waiters, [](const auto& waiter) { return !waiter->done; }));
}

// So long a request may take.
inline constexpr std::chrono::seconds kRequestMax{10};

// One batch on its way, through as many requests as it takes.
struct OwnBlocks::Round {
  Waiters waiters;            // without a result yet
  SteadyTime deadline{};      // of all of it
  ipam::BlockView base = {};  // what the next patch is decided on
  bool is_in_doubt = false;   // a patch with these changes may have landed
  int conflicts = 0;
  std::map<ipam::BlockOffset, ipam::Attachment> handed_out = {};  // that the patch carries
  bool is_alone = false;                                          // it carries nothing that was handed out, but `only`
  std::optional<ipam::BlockOffset> only = {};
};

}  // namespace berth::agent
