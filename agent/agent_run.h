// SPDX-License-Identifier: Apache-2.0
// RunAgent: the process around Agent: credentials, sockets, signals.
//
// Of two agents of a node the one that started last serves (docs/adr/0007). The other one stands by: it serves again
// when no other lives any more, so that a failed update leaves the node an agent, and never while one does.
#pragma once

#include <string>

#include "agent/agent.h"

namespace berth::agent {

struct RunOptions {
  std::string kubeconfig;  // empty: the pod's service account
  std::string socket = "/run/berth/agent.sock";
  std::string probe_socket;  // of this process alone, also while it stands by; empty: none
  std::string http_address;
  std::string version;
  bool retires = false;  // in place of serving: leaves the node to berth-direct, and ends
  AgentOptions agent;    // its run_dir is the socket's folder
};

// Until SIGTERM or SIGINT. The exit status.
[[nodiscard]] int RunAgent(RunOptions options);

// Says on the log what went wrong. EXIT_FAILURE.
[[nodiscard]] int Complain(const Error& error);

// The command line, of the agent and of what its pod needs besides. The exit status.
[[nodiscard]] int AgentMain(int argc, const char* const* argv);

}  // namespace berth::agent
