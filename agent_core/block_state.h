// SPDX-License-Identifier: Apache-2.0
// BlockState: all that the agent knows of one of its blocks. A value without locks, which a test can copy and print.
//
// The state has two parts. The first is the block: its newest version, and where this agent's intentions differ from
// it. The second is the batch that is being sent, if there is one: a list of rounds, of which the first has a request
// under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipam/block.h"
#include "ipam/change.h"

namespace berth::agent_core {

using SteadyTime = std::chrono::steady_clock::time_point;

// Both clocks at one moment. The second goes on while the machine is suspended (CLOCK_BOOTTIME).
struct Now {
  SteadyTime steady{};
  std::chrono::nanoseconds since_boot{};
};

// resourceVersions of one kind are ordered numbers (KEP-5504); 0 for anything else.
[[nodiscard]] std::uint64_t VersionOf(std::string_view resource_version);
[[nodiscard]] inline std::uint64_t VersionOf(const ipam::Block& block) { return VersionOf(block.resource_version); }

// A change, or an address that was handed out. 0: nobody wants to know what becomes of it.
using ChangeId = std::uint64_t;

struct Waiting {
  ChangeId id = 0;
  ipam::Change change;
  SteadyTime deadline;
  bool has_caller = true;  // a caller waits for it; if not, it is sent by `due`
  SteadyTime due{};
};

// What somebody else removed or changed, and this agent writes again. An empty text: no entry.
struct Overwritten {
  std::string by;  // what was seen there
  std::string was;
};

// An address that was given before it is written. It goes with every patch until it is in.
struct HandedOut {
  ChangeId id = 0;
  ipam::Attachment attachment;  // empty: an agent of another machine has the address on standby
  std::string entry;
  bool is_refused = false;  // the API server refuses it: it is not sent with others
  [[nodiscard]] bool is_strangers() const { return attachment.empty(); }
};

// An agent that this node's files do not know and that wrote a block, as one of another machine with this node's name.
struct Stranger {
  std::string agent;               // as it stood there
  std::chrono::nanoseconds met{};  // or when this agent wrote over it, since boot
  bool came_back = false;          // after that
};

// Changes that are sent as one patch, through as many requests as it takes.
struct Round {
  std::vector<Waiting> changes;  // without a result yet
  SteadyTime deadline{};         // of all of it
  bool has_begun = false;
  bool fences = false;  // the patch under way raises `agent`
  // A patch with these changes may have landed.
  bool is_in_doubt = false;
  // It carries nothing that was handed out, but `only`.
  bool is_alone = false;
  std::optional<ipam::BlockOffset> only = {};

  int conflicts = 0;
  SteadyTime not_before{};  // of the next request
  bool is_settled = false;  // the block was read since the last patch
  enum class Awaits : std::uint8_t { kNothing, kSettlingRead, kWrite, kConflictRead };
  Awaits awaits = Awaits::kNothing;
  // Of kWrite and kConflictRead.
  ipam::BlockView before = {};
  ipam::Block after = {};
  bool asks_for_all = false;
  std::map<ipam::BlockOffset, ipam::Attachment> carried = {};      // of what was handed out
  Now asked = {};                                                  // when the request under way was sent
  Error conflict = {.code = ErrorCode::kConflict, .message = {}};  // the answer to the last patch, of kConflictRead
};

struct BlockState {
  std::uint64_t born = 0;  // the generation that it came with
  ipam::BlockView view;    // the newest version known, as the API server has it

  std::map<ipam::BlockOffset, Overwritten> overwritten;  // to be put back
  std::map<ipam::BlockOffset, HandedOut> handed_out;
  std::optional<ipam::StandbyPlan> standby_plan;  // of the newest change that knew the pool: DELs do not

  // Of standby: whether it may be given.
  bool is_failing = false;                                            // the last patch did not succeed
  std::chrono::nanoseconds proved = std::chrono::nanoseconds::min();  // the last that did was sent then, since boot
  bool must_fence = false;  // the next patch raises `agent`: it is to succeed before anything is handed out
  std::optional<Stranger> stranger;
  // Both have written over the other twice: neither changes the block until a minute went by.
  [[nodiscard]] bool is_contested() const { return stranger && stranger->came_back && !must_fence; }

  // The version that a write was decided on whose answer was lost, until a newer one is seen or written.
  std::optional<std::string> doubt_version;
  std::set<ipam::Attachment> in_doubt;

  std::deque<Waiting> queue;
  bool is_sending = false;  // a batch is gathered or sent
  std::deque<Round> rounds;
  std::set<ipam::Attachment> batch;             // whose changes are being sent: what they remove has not vanished
  ipam::OffsetSet leaving;                      // what the patch under way gives away or takes off standby
  ipam::BlockView observed;                     // came while a batch was sent
  std::chrono::steady_clock::duration took{0};  // a patch of this block, smoothed
};

// How many of these changes callers wait for.
[[nodiscard]] std::size_t CountCallers(const auto& changes) {
  std::size_t count = 0;
  for (const Waiting& one : changes) count += one.has_caller ? 1 : 0;
  return count;
}

// The entry's text at that offset; empty: there is none.
[[nodiscard]] std::string TextAt(const ipam::Block& block, ipam::BlockOffset offset);

// What was overwritten is what it was, unless somebody else has the address by now.
void PutBack(const BlockState& state, ipam::Block& block);
// What was handed out is where it was handed out.
void AddHandedOut(const BlockState& state, ipam::Block& block);
// The block as it will be: with what is put back, what was handed out, and changes that no caller waits for.
[[nodiscard]] ipam::BlockView Shown(const BlockState& state);

// Whether the attachment has an address of the block, written or not.
[[nodiscard]] bool Holds(const BlockState& state, const ipam::Attachment& attachment);
// Whether a write of the attachment is under way, or its outcome is not known.
[[nodiscard]] bool IsInDoubt(const BlockState& state, const ipam::Attachment& attachment);
// Whether a DEL of the attachment is sent, or waits.
[[nodiscard]] bool IsGivenBack(const BlockState& state, const ipam::Attachment& attachment);

// What must hold after every transition, whatever the API server answers. Nothing: it holds. Else what does not.
[[nodiscard]] std::optional<std::string> FindBrokenInvariant(const BlockState& state);

}  // namespace berth::agent_core
