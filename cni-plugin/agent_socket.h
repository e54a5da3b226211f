// SPDX-License-Identifier: Apache-2.0
// AgentSocket: connects to the node agent, and waits for an agent that restarts.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/error.h"
#include "cni-plugin/agent_answer.h"
#include "cni-plugin/deadline.h"

namespace berth::cni_plugin {

// Connects once. If the queue of the listening socket is full, waits for room until `deadline`. Errors are errnos:
// ENOENT: the socket does not exist; ECONNREFUSED: no process listens on it; EAGAIN: the deadline has passed.
[[nodiscard]] std::expected<Descriptor, int> Connect(const std::string& path, Deadline deadline);

// True if the error of Connect goes away when an agent starts.
[[nodiscard]] bool IsAbsence(int error);

// Like Connect, but while no agent listens, tries again until `deadline`: after each change in the socket's folder, and
// at least every 100 ms. Returns the error of the last attempt.
[[nodiscard]] std::expected<Descriptor, int> ConnectWhenThere(const std::string& path, Deadline deadline);

// Sends `request` and reads the answer. The connection cannot be used again.
// Errors: kUnavailable: no byte was sent. kUnknownOutcome: the agent may have served the request, or may still serve
// it: the connection broke, the deadline has passed, or the bytes received are not an answer.
[[nodiscard]] Expected<AgentAnswer> Exchange(const Descriptor& connection, std::string_view request, Deadline deadline);

}  // namespace berth::cni_plugin
