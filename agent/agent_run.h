// SPDX-License-Identifier: Apache-2.0
// RunAgent: the process around Agent, with credentials, sockets and signals.
//
// If a node has two agents, the agent that started last serves (docs/adr/0007). The other process waits, and serves
// again only when no other agent runs. So a failed update does not leave the node without an agent.
#pragma once

#include <string>

#include "agent/agent.h"

namespace berth::agent {

struct RunOptions {
  std::string kubeconfig;  // empty: the pod's service account
  std::string socket = "/run/berth/agent.sock";
  std::string probe_socket;  // socket of this process alone, which answers also while the process waits; empty: none
  std::string http_address;
  std::string version;
  bool retires = false;  // instead of serving: sets the node's mode to direct, and ends
  AgentOptions agent;    // run_dir is the socket's folder
};

// Runs until SIGTERM or SIGINT. Returns the exit status.
[[nodiscard]] int RunAgent(RunOptions options);

// Logs the error. Returns EXIT_FAILURE.
[[nodiscard]] int Complain(const Error& error);

// The command line of berth-agent, with the subcommands for its pod. Returns the exit status.
[[nodiscard]] int AgentMain(int argc, const char* const* argv);

}  // namespace berth::agent
