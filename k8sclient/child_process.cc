// SPDX-License-Identifier: Apache-2.0
// RunChild uses posix_spawn and poll.
#include "k8sclient/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/descriptor.h"

namespace berth::k8sclient {
namespace {

constexpr std::size_t kErrorBytesKept = 4096;
constexpr int kStopCheckMs = 50;  // a stop request is noticed at most this much later

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class Child {
 public:
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { End(); }

  [[nodiscard]] Expected<void> Start(const ChildCommand& command) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0) return Fail(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
    out_.pipe = Descriptor(out[0]);
    const Descriptor out_end(out[1]);
    if (pipe2(err.data(), O_CLOEXEC) != 0) return Fail(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
    err_.pipe = Descriptor(err[0]);
    const Descriptor err_end(err[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_end.descriptor(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_end.descriptor(), STDERR_FILENO);
    // Otherwise the child would inherit the sockets with which libcurl wakes itself.
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<std::string> args{command.program};
    args.insert(args.end(), command.args.begin(), command.args.end());
    std::vector<std::string> environment = command.environment;
    pid_t pid = -1;
    const int failure = posix_spawnp(
        &pid, command.program.c_str(), &actions, &attributes, Pointers(args).data(), Pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) {
      return Fail(failure == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                  "run \"" + command.program + "\": " + std::strerror(failure));
    }
    pid_ = pid;
    process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (!process_.is_open()) return Fail(ErrorCode::kIo, std::string("pidfd_open: ") + std::strerror(errno));
    return {};
  }

  // Collects output until the program ends, and then the rest of the output. Open pipes do not prove that the program
  // runs: children of the program may keep them open for ever.
  [[nodiscard]] Expected<ChildResult> Finish(const ChildCommand& command, const CallOptions& options) {
    ChildResult result;
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(options.deadline - std::chrono::steady_clock::now());
      if (options.stop.stop_requested() || left.count() <= 0) {
        return Fail(ErrorCode::kTimeout, "run \"" + command.program + "\": took too long");
      }
      // poll ignores closed descriptors, whose number is -1.
      std::array<pollfd, 3> polled{{{out_.pipe.descriptor(), POLLIN, 0},
                                    {err_.pipe.descriptor(), POLLIN, 0},
                                    {process_.descriptor(), POLLIN, 0}}};
      const auto wait_ms = pid_ < 0 ? 0 : std::min<std::int64_t>(left.count(), kStopCheckMs);
      const int ready = poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
      if (ready > 0 && polled[0].revents != 0) out_.Read();
      if (ready > 0 && polled[1].revents != 0) err_.Read();
      if (out_.text.size() > command.output_bytes_max) {
        return Fail(ErrorCode::kInvalid, "run \"" + command.program + "\": printed too much");
      }
      if (err_.text.size() > kErrorBytesKept) err_.text.erase(0, err_.text.size() - kErrorBytesKept);
      if (ready > 0 && polled[2].revents != 0) result.exit_code = End();
      if (ready != 0 || pid_ >= 0) continue;
      result.output = std::move(out_.text);
      result.error_output = std::move(err_.text);
      return result;
    }
  }

 private:
  struct Stream {
    Descriptor pipe = {};
    std::string text = {};

    // Reads once, after poll, so that it does not block. At the end of the file, closes the pipe, because poll would
    // return at once for it.
    void Read() {
      std::array<char, 4096> chunk{};
      const ssize_t got = read(pipe.descriptor(), chunk.data(), chunk.size());
      if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
      if (got == 0) pipe.Close();
    }
  };

  // Kills the rest of the process group and returns the program's exit code.
  int End() {
    if (pid_ < 0) return 0;
    kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    process_.Close();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t pid_ = -1;
  Descriptor process_;  // a pidfd: readable when the process ends
  Stream out_;
  Stream err_;
};

}  // namespace

Expected<ChildResult> RunChild(const ChildCommand& command, const CallOptions& options) {
  Child child;
  const Expected<void> started = child.Start(command);
  if (!started) return std::unexpected(started.error());
  return child.Finish(command, options);
}

}  // namespace berth::k8sclient
