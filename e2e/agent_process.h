// SPDX-License-Identifier: Apache-2.0
// AgentProcess: a berth-agent as a node would run it, and what its socket answers.
//
// Whatever cannot be done throws std::runtime_error or std::system_error: a test cannot go on then.
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

// GET over a UNIX socket. Nothing: nobody listens, or the answer broke off.
[[nodiscard]] std::optional<HttpReply> GetOverSocket(const std::string& socket_path, std::string_view path);

// The sum of a metric's samples whose labels hold `label`, such as `verb="DEL"`; 0 if there is none.
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
  // Ends it with SIGKILL.
  ~AgentProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const AgentSettings& settings() const { return settings_; }

  // Waits until it has loaded its blocks. False: not in time, or it has ended.
  [[nodiscard]] bool AwaitReady(std::chrono::milliseconds limit = std::chrono::seconds(20)) const;

  void Signal(int number) const;
  // Its exit code, or 128 plus the signal that ended it. Nothing: it still runs after that time.
  [[nodiscard]] std::optional<int> AwaitEnd(std::chrono::milliseconds limit);
  // SIGKILL, and it is gone when this returns.
  void Kill();

 private:
  AgentSettings settings_;
  pid_t pid_ = -1;
  int end_fd_ = -1;  // a pidfd
  std::optional<int> exit_code_;
};

}  // namespace berth::e2e
