// SPDX-License-Identifier: Apache-2.0
// Compare finds what others did to a block: it compares the version that the agent saw with the version that it
// expected.
//
//   - If another writer removed or replaced a held entry, the agent writes the entry again, unless the other writer
//     left a cooling entry whose `f` names the attachment. The agent does not write a removed cooling entry again.
//   - If the controller freed an entry and the container's network namespace still exists, the agent writes the entry
//     again: the pod is gone, but the container may still use the address.
//   - If an agent of another machine wrote the block, that agent may have given its addresses on standby to pods.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent_core/block_state.h"

namespace berth::agent_core {

// The identity of this agent.
struct Self {
  std::string node;
  std::string instance;  // "<machine>-<run of the agent>"
  // Whether the node may have a network namespace of that name. The function must not block. If empty, the agent cannot
  // see network namespaces.
  std::function<bool(const std::string& netns)> may_have_netns = {};
};

// Whether another instance of the agent (another run, or another machine) wrote the version.
[[nodiscard]] bool IsForeign(const ipam::Block& block, std::string_view instance);
[[nodiscard]] bool IsOfAnotherMachine(const ipam::Block& block, std::string_view instance);
// Returns "<machine>-<run>" of a value of the field `agent`.
[[nodiscard]] std::string_view InstanceOf(std::string_view agent);

// Texts of entries that others changed, for logs and metrics.
struct Noticed {
  std::vector<std::string> vanished;  // removed or replaced; restored
  std::vector<std::string> in_use;    // freed by the controller, but the network namespace exists; restored
  std::vector<std::string> freed;
};

struct Comparison {
  std::map<ipam::BlockOffset, EntryToRestore> to_restore;  // the new value of BlockState::to_restore
  Noticed noticed;
};

// Compares `seen` with `expected`, which this agent expected to see. Requires: `seen` is a version of the state's
// block.
[[nodiscard]] Comparison Compare(const BlockState& state, const ipam::Block& expected, const ipam::Block& seen,
                                 const Self& self);

// If `text` is a cooling entry with a freed held entry whose network namespace may exist, returns the held entry. If
// the network namespace is gone, adds the held entry to `noticed.freed` and returns nullopt.
[[nodiscard]] std::optional<std::string> StillInUse(const std::string& text, const Self& self, Noticed& noticed);

// Changes the state after a foreign agent wrote `seen`. Sets aside the addresses that the foreign agent has on standby,
// except addresses that are on standby or held in `expected`: the foreign agent gives these addresses to no pod.
void MeetForeignAgent(BlockState& state, const ipam::Block& seen, const ipam::Block& expected, const Now& now);
// If the foreign agent was silent for 60 s, frees the addresses that were set aside for it.
void PartFromForeignAgent(BlockState& state, const Self& self, const Now& now);

}  // namespace berth::agent_core
