// SPDX-License-Identifier: Apache-2.0
// NodeMode says which program serves the pods of this machine and writes the node's blocks: its agent or berth-direct
// (docs/adr/0007). The file `mode` in the state folder contains the mode. If the file is missing, the mode is kAgent.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "node/folder.h"

namespace berth::node {

enum class NodeMode : std::uint8_t { kAgent, kDirect };

// Succeeds if the node's mode is `wanted`. Errors: kUnavailable: the node has the other mode; kInvalid, kIo: the file
// `mode` cannot be understood or read. Each error names the file and a remedy.
[[nodiscard]] Expected<void> RequireMode(const Folder& state, NodeMode wanted);

// Like above, for the state folder at `path`, which this function does not create. If the folder is missing, the mode
// is kAgent.
[[nodiscard]] Expected<void> RequireMode(const std::string& path, NodeMode wanted);

// When WriteMode returns, the mode survives a crash of the machine. Errors: kIo.
[[nodiscard]] Expected<void> WriteMode(const Folder& state, NodeMode mode);

// For a new node: sets the mode kDirect. Returns false if the node has this mode already. Holds the queue's lock
// (node/del_queue.h) meanwhile, as an agent does when it takes a node: on a new node only one of the two succeeds.
// Errors: kUnavailable: the state folder has notes of an agent or queued DELs, which the next agent or --retire must
// first write, or `mode` says agent, or another program holds the lock; the mode is unchanged; kInvalid, kIo.
[[nodiscard]] Expected<bool> BeginAsDirect(const Folder& state);

}  // namespace berth::node
