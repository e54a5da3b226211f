// SPDX-License-Identifier: Apache-2.0
// AgentProcess: a berth-agent that runs as long as this object lives.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace berth::bench {

class AgentProcess {
 public:
  // Starts the agent with its stderr in `log_file`. Does not wait until the agent serves: the plugin `berth` waits for
  // the agent. Errors: kIo.
  [[nodiscard]] static Expected<AgentProcess> Start(const std::string& program,
                                                    const std::vector<std::string>& arguments,
                                                    const std::string& log_file);
  AgentProcess(AgentProcess&& other) noexcept;
  AgentProcess& operator=(AgentProcess&&) = delete;
  // Sends SIGTERM, and waits for the end of the agent.
  ~AgentProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit AgentProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;  // 0: moved from
};

}  // namespace berth::bench
