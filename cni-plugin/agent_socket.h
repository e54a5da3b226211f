// SPDX-License-Identifier: Apache-2.0
// AgentSocket: a connection to the node agent, and waiting for one that is restarting.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cni-plugin/agent_answer.h"
#include "cni-plugin/deadline.h"
#include "cni-plugin/descriptor.h"

namespace berth::cni_plugin {

// Connects once; waits, until `deadline`, only where an agent has not yet taken those that came before. The error is an
// errno: ENOENT no socket, ECONNREFUSED nobody behind it, EAGAIN the deadline passed.
[[nodiscard]] std::expected<Descriptor, int> Connect(const std::string& path, Deadline deadline);

// The errors of Connect that an agent that is starting ends.
[[nodiscard]] bool IsAbsence(int error);

// As Connect, again and again until `deadline` while no agent is there: whenever something changes in the socket's
// folder, and ten times a second. The error is that of the last attempt.
[[nodiscard]] std::expected<Descriptor, int> ConnectWhenThere(const std::string& path, Deadline deadline);

// Sends `request` and reads the answer. The connection is of no use afterwards.
// Errors: kUnavailable: not one byte went out. kUnknownOutcome: the request may have been served, or may still be: the
// connection broke, the time is over, or what came is no answer.
[[nodiscard]] Expected<AgentAnswer> Exchange(const Descriptor& connection, std::string_view request, Deadline deadline);

}  // namespace berth::cni_plugin
