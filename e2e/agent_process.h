// SPDX-License-Identifier: Apache-2.0
// AgentProcess: runs a berth-agent as a node does, and asks its socket.
//
// Functions throw std::runtime_error or std::system_error on failure, because the test cannot continue.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace berth::e2e {

struct HttpReply {
  int status = 0;
  std::string body;
};

// Sends a GET over a UNIX socket. Nothing: no program listens, or the answer is incomplete.
[[nodiscard]] std::optional<HttpReply> GetOverSocket(const std::string& socket_path, std::string_view path);

// The sum of a metric's samples whose labels contain `label`, such as `verb="DEL"`; 0 if there is no such sample.
[[nodiscard]] double MetricOf(const std::string& socket_path, std::string_view name, std::string_view label = "");

struct AgentSettings {
  std::string binary;
  std::string node;
  std::string kubeconfig;
  std::string socket;
  std::string state_dir;
  std::string log_file;  // appended to
  std::vector<std::string> more = {};
};

class AgentProcess {
 public:
  explicit AgentProcess(AgentSettings settings);
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  // Ends the agent with SIGKILL.
  ~AgentProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const AgentSettings& settings() const { return settings_; }

  // Waits until the agent has loaded its blocks. False: the limit has passed, or the agent has ended.
  [[nodiscard]] bool AwaitReady(std::chrono::milliseconds limit = std::chrono::minutes(1)) const;

  void Signal(int number) const;
  // The agent's exit code, or 128 plus the signal that ended it. Nothing: the agent still runs after `limit`.
  [[nodiscard]] std::optional<int> AwaitEnd(std::chrono::milliseconds limit);
  // Sends SIGKILL and waits until the agent has ended.
  void Kill();

 private:
  AgentSettings settings_;
  pid_t pid_ = -1;
  int end_fd_ = -1;  // a pidfd
  std::optional<int> exit_code_;
};

}  // namespace berth::e2e
