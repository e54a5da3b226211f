// SPDX-License-Identifier: Apache-2.0
// Compare: what others did to a block, by comparing the version that was seen with what this agent expected.
//
//   - A held entry that somebody else removed or replaced is written again, unless the controller freed it with a mark
//     that names it. A cooling entry that somebody removed is not written again.
//   - An entry that the controller freed with its mark is written again too, if the container's network namespace is
//     still there: its pod is gone, but the container may still use the address.
//   - An agent of another machine that writes this block may have handed out what it has on standby.
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

// Who this agent is.
struct Self {
  std::string node;
  std::string instance;  // "<machine>-<run of the agent>"
  // Whether the node may have a network namespace of that name. Must not wait for anything; empty: nobody can tell.
  std::function<bool(const std::string& netns)> may_have_netns = {};
};

// Whether another run of the agent wrote the version; one that knows other files.
[[nodiscard]] bool IsForeign(const ipam::Block& block, std::string_view instance);
[[nodiscard]] bool IsOfAnotherMachine(const ipam::Block& block, std::string_view instance);
// "<machine>-<run>" of the field `agent`.
[[nodiscard]] std::string_view InstanceOf(std::string_view agent);

// The changes of others that people are told of, as texts of entries.
struct Noticed {
  std::vector<std::string> vanished;  // is put back
  std::vector<std::string> in_use;    // is put back
  std::vector<std::string> freed;
};

struct Comparison {
  std::map<ipam::BlockOffset, Overwritten> overwritten;  // as BlockState keeps it
  Noticed noticed;
};

// Requires: `seen` is the state's block. `expected`: what this agent expected to see.
[[nodiscard]] Comparison Compare(const BlockState& state, const ipam::Block& expected, const ipam::Block& seen,
                                 const Self& self);

// The entry that the controller freed where this text is, if its container's network namespace is or may be there.
[[nodiscard]] std::optional<std::string> StillInUse(const std::string& text, const Self& self, Noticed& noticed);

// The state after an agent of another machine wrote `seen`. What that agent has on standby is set aside, but for what
// this agent expected to have there, or to hold: it keeps away from that as well.
void MeetStranger(BlockState& state, const ipam::Block& seen, const ipam::Block& expected, const Now& now);
// Nobody met the stranger for a minute: what was set aside for it is free again.
void PartFromStranger(BlockState& state, const Self& self, const Now& now);

}  // namespace berth::agent_core
