// SPDX-License-Identifier: Apache-2.0
// BlockState: all that the agent knows about one of its blocks. A BlockState is a value without locks, which a test can
// copy and print.
//
// A BlockState has two parts. The first part is the block: its newest known version, and the changes that this agent
// still has to write. The second part is the batch that is being sent, if any: a list of rounds, of which only the
// first has a request under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent_core/retry_pause.h"
#include "base/resource_version.h"
#include "ipam/block.h"
#include "ipam/change.h"

namespace berth::agent_core {

// One moment on both clocks. `since_boot` is CLOCK_BOOTTIME, which goes on while the machine is suspended.
struct Now {
  SteadyTime steady{};
  std::chrono::nanoseconds since_boot{};
};

[[nodiscard]] inline std::uint64_t VersionOf(const ipam::Block& block) { return ParseVersion(block.resource_version); }

// Identifies a change or a handed-out address. 0: no caller asks for the outcome.
using ChangeId = std::uint64_t;

struct PendingChange {
  ChangeId id = 0;
  ipam::Change change;
  SteadyTime deadline{};   // the caller's deadline
  bool has_caller = true;  // a caller waits for the outcome; false: a deferred change, to be sent by `due`
  SteadyTime due{};
};

// An entry that another writer removed or changed, and that this agent restores. An empty text means: no entry.
struct EntryToRestore {
  std::string found;   // the text that the other writer left
  std::string wanted;  // the text that this agent writes again
};

// An address that a pod got before the entry is written. Each patch carries the entry until one has landed.
struct HandedOut {
  ChangeId id = 0;
  ipam::Attachment attachment;  // empty: this agent sets the address aside for a foreign agent
  std::string entry;
  // The API server refuses the entry, or the address is set aside: no patch with other changes carries the entry.
  bool is_refused = false;
  [[nodiscard]] bool is_set_aside() const { return attachment.empty(); }
};

// An agent of another instance that wrote the block, although the node's files say that this agent serves the node:
// usually an agent of another machine with this node's name.
struct ForeignAgent {
  std::string agent;  // value of the block's field `agent`
  // Time since boot at which this agent last saw a write of the foreign agent, or last wrote over it.
  std::chrono::nanoseconds met{};
  bool came_back = false;  // the foreign agent wrote again after this agent had written over it
};

// Changes that are sent with one patch. The round takes several requests if answers are lost or patches meet conflicts.
struct Round {
  std::vector<PendingChange> changes;  // changes without an outcome
  SteadyTime deadline{};               // time limit of the whole round
  bool fences = false;                 // the patch under way is a fence: it writes a new value to the field `agent`
  // An earlier patch with these changes may have landed, or may land later.
  bool is_in_doubt = false;
  // The patch carries no handed-out address except `only`.
  bool is_alone = false;
  std::optional<ipam::BlockOffset> only = {};

  int conflicts = 0;
  bool is_settled = false;  // the block was read since the last patch
  enum class Awaits : std::uint8_t { kNothing, kSettlingRead, kWrite, kConflictRead };
  Awaits awaits = Awaits::kNothing;
  // `before`, `after`, `asks_for_all` and `carried` describe the last patch; used in the states kWrite and
  // kConflictRead.
  ipam::BlockView before = {};
  ipam::Block after = {};
  bool asks_for_all = false;
  ipam::OffsetSet carried = {};                                    // handed-out addresses that the patch carries
  Now asked = {};                                                  // when the request under way was sent
  Error conflict = {.code = ErrorCode::kConflict, .message = {}};  // answer to the last patch, for kConflictRead
};

struct BlockState {
  std::uint64_t added_generation = 0;  // Core::generation() when the block was added
  ipam::BlockView view;                // newest version that the agent knows of the API server's copy

  std::map<ipam::BlockOffset, EntryToRestore> to_restore;  // each patch restores these entries
  std::map<ipam::BlockOffset, HandedOut> handed_out;
  // Pauses the upkeep of the block: WriteWhatIsLeft, the renewal of standby, SweepCooled, and journalled DELs in doubt.
  // Begins when the API server has refused changes of the upkeep, or when a write stays in doubt.
  RetryPause upkeep_pause;
  // Plan of the newest change that has one. An ADD has a plan, because it knows the pool; a DEL has none.
  std::optional<ipam::StandbyPlan> standby_plan;

  // The fields from is_failing to is_contested() say whether addresses on standby may be given.
  // A failed patch (except a conflict), a failed read after a conflict, and a write of a foreign agent set it. The next
  // patch that succeeds clears it.
  bool is_failing = false;
  // Time since boot at which the last request was sent that showed that the block still belongs to this node: a patch
  // that succeeded, or a read that found the block unchanged.
  std::chrono::nanoseconds proved = std::chrono::nanoseconds::min();
  // The next patch has to be a fence. The core hands out no address of the block before the fence has succeeded.
  bool must_fence = false;
  std::optional<ForeignAgent> foreign_agent;
  // This agent and the foreign agent have each written over the other twice: this agent refuses changes of the block
  // until 60 s after the last of these writes.
  [[nodiscard]] bool is_contested() const { return foreign_agent && foreign_agent->came_back && !must_fence; }

  // resourceVersion that the write in doubt names. It is reset when the agent sees or writes another version.
  std::optional<std::string> doubt_version;
  std::set<ipam::Attachment> in_doubt;

  std::deque<PendingChange> queue;
  bool is_sending = false;  // the driver gathers or sends a batch
  std::deque<Round> rounds;
  // Attachments whose entries the batch adds, changes or removes: Compare does not report these entries.
  std::set<ipam::Attachment> attachments_in_flight;
  ipam::OffsetSet leaving;                               // offsets that the patch under way takes off standby
  ipam::BlockView observed;                              // newest version that came while a batch was sent
  std::chrono::steady_clock::duration patch_latency{0};  // how long a patch of this block takes, smoothed
};

// Returns how many of the changes have a waiting caller.
[[nodiscard]] std::size_t CountCallers(const auto& changes) {
  std::size_t count = 0;
  for (const PendingChange& one : changes) count += one.has_caller ? 1 : 0;
  return count;
}

// The text of the entry at `offset`; empty if there is no entry.
[[nodiscard]] std::string TextAt(const ipam::Block& block, ipam::BlockOffset offset);

// Restores the entries of `to_restore` in `block`. Keeps an entry that another writer has written since, and does not
// restore an attachment that has another address of the block.
void RestoreEntries(const BlockState& state, ipam::Block& block);
// Adds the handed-out addresses whose entries are not written to `block`.
void AddHandedOut(const BlockState& state, ipam::Block& block);
// The block with restored entries, handed-out addresses and deferred changes.
[[nodiscard]] ipam::BlockView Shown(const BlockState& state);

// Whether the attachment has an address of the block, even if the entry is not written.
[[nodiscard]] bool Holds(const BlockState& state, const ipam::Attachment& attachment);
// Whether a write of the attachment is under way or in doubt.
[[nodiscard]] bool IsInDoubt(const BlockState& state, const ipam::Attachment& attachment);
// Whether a DEL of the attachment is queued or being sent.
[[nodiscard]] bool IsGivenBack(const BlockState& state, const ipam::Attachment& attachment);

// Checks the invariants, which must hold after every transition whatever the API server answers. Returns nullopt, or
// what does not hold.
[[nodiscard]] std::optional<std::string> FindBrokenInvariant(const BlockState& state);

// Ends the process at the end of its scope if the state breaks an invariant, in release builds too. Each public
// function of Core that changes a state has one; Forget has none, because it may destroy the state.
class CheckAtEnd {
 public:
  explicit CheckAtEnd(const BlockState& state) : state_(state) {}
  CheckAtEnd(const CheckAtEnd&) = delete;
  CheckAtEnd& operator=(const CheckAtEnd&) = delete;
  ~CheckAtEnd();

 private:
  const BlockState& state_;
};

}  // namespace berth::agent_core
