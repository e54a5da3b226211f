// SPDX-License-Identifier: Apache-2.0
// NodeMode: who serves the pods of this machine, and alone writes its blocks: its agent, or berth-direct
// (docs/adr/0007). It stands in the file `mode` of the state folder; where there is none, it is the agent.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "node/folder.h"

namespace berth::node {

enum class NodeMode : std::uint8_t { kAgent, kDirect };

// Errors: kUnavailable: it is the other one; kInvalid, kIo: it cannot be told. They name file and remedy.
[[nodiscard]] Expected<void> RequireMode(const Folder& state, NodeMode wanted);

// As above, of the state folder at `path`, which this does not make: without it the node is its agent's.
[[nodiscard]] Expected<void> RequireMode(const std::string& path, NodeMode wanted);

// Survives the machine. Errors: kIo.
[[nodiscard]] Expected<void> WriteMode(const Folder& state, NodeMode mode);

// For a node that is to be berth-direct's from its first day: its mode becomes direct. False: it is already. Errors:
// kUnavailable: an agent has been here, and nothing has changed: what it left must be written first; kInvalid, kIo.
[[nodiscard]] Expected<bool> BeginAsDirect(const Folder& state);

}  // namespace berth::node
