// SPDX-License-Identifier: Apache-2.0
// Starts and ends a child process.
#include "bench/agent_process.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/check.h"

namespace berth::bench {
Expected<AgentProcess> AgentProcess::Start(const std::string& program, const std::vector<std::string>& arguments,
                                           const std::string& log_file) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  BERTH_CHECK(posix_spawn_file_actions_init(&actions) == 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  pid_t pid = 0;
  const int failure = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return Fail(ErrorCode::kIo, "start " + program + ": " + std::strerror(failure));
  return AgentProcess(pid);
}

AgentProcess::AgentProcess(AgentProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}

AgentProcess::~AgentProcess() {
  if (pid_ == 0) return;
  kill(pid_, SIGTERM);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace berth::bench
