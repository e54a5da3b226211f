// SPDX-License-Identifier: Apache-2.0
// posix_spawn, two pipes, waitpid.
#include "bench/plugin_call.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace berth::bench {
namespace {

class Pipe {
 public:
  // Closed on exec, because a child of another thread must not keep an end open.
  Pipe() { BERTH_CHECK(pipe2(ends_.data(), O_CLOEXEC) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseReader();
    CloseWriter();
  }
  [[nodiscard]] int reader() const { return ends_[0]; }
  [[nodiscard]] int writer() const { return ends_[1]; }
  void CloseReader() { Close(ends_[0]); }
  void CloseWriter() { Close(ends_[1]); }

 private:
  static void Close(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  std::array<int, 2> ends_{};
};

// Returns the process ID. Errors: kIo.
Expected<pid_t> Spawn(const PluginCall& call, const Pipe& in, const Pipe& out) {
  std::array<char*, 2> arguments = {const_cast<char*>(call.program.c_str()), nullptr};
  std::vector<char*> environment;
  for (const std::string& variable : call.environment) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  BERTH_CHECK(posix_spawn_file_actions_init(&actions) == 0);
  posix_spawn_file_actions_adddup2(&actions, in.reader(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.writer(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failure = posix_spawn(&pid, call.program.c_str(), &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    return Fail(ErrorCode::kIo, "start " + call.program + ": " + std::strerror(failure));
  }
  return pid;
}

std::string ReadToEnd(int descriptor) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t count = read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Expected<PluginAnswer> RunPlugin(const PluginCall& call) {
  Pipe in;
  Pipe out;
  // Before the process runs, because the pipe holds all of it.
  BERTH_CHECK(write(in.writer(), call.config.data(), call.config.size()) == static_cast<ssize_t>(call.config.size()));
  in.CloseWriter();
  const auto pid = Spawn(call, in, out);
  if (!pid) return std::unexpected(pid.error());
  out.CloseWriter();
  PluginAnswer answer{.output = ReadToEnd(out.reader())};
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0) BERTH_CHECK(errno == EINTR);
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

}  // namespace berth::bench
