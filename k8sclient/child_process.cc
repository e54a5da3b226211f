// SPDX-License-Identifier: Apache-2.0
// RunChild, with posix_spawn and poll.
#include "k8sclient/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::k8sclient {
namespace {

constexpr std::size_t kErrorBytesKept = 4096;
constexpr int kStopCheckMs = 50;  // a stop request is noticed at most this much later

class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { Close(); }
  void Reset(int descriptor) {
    Close();
    descriptor_ = descriptor;
  }
  void Close() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

struct Pipe {
  File read;
  File write;
  [[nodiscard]] bool Open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read.Reset(ends[0]);
    write.Reset(ends[1]);
    fcntl(read.get(), F_SETFL, O_NONBLOCK);
    return true;
  }
};

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
    if (!out_.Open() || !err_.Open()) return Fail(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_.write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_.write.get(), STDERR_FILENO);
    // Otherwise the child would inherit the sockets with which libcurl wakes itself.
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<std::string> args{command.program};
    args.insert(args.end(), command.args.begin(), command.args.end());
    std::vector<std::string> environment = command.environment;
    const int failure = posix_spawnp(
        &pid_, command.program.c_str(), &actions, &attributes, Pointers(args).data(), Pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    out_.write.Close();
    err_.write.Close();
    if (failure != 0) {
      pid_ = -1;
      return Fail(failure == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                  "run \"" + command.program + "\": " + std::strerror(failure));
    }
    process_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (process_.get() < 0) return Fail(ErrorCode::kIo, std::string("pidfd_open: ") + std::strerror(errno));
    return {};
  }

  // Collects output until the program ends.
  [[nodiscard]] Expected<ChildResult> Finish(const ChildCommand& command, const CallOptions& options) {
    ChildResult result;
    while (true) {
      if (options.stop.stop_requested() || std::chrono::steady_clock::now() >= options.deadline) {
        return Fail(ErrorCode::kTimeout, "run \"" + command.program + "\": took too long");
      }
      const bool ended = Wait(options);
      Drain(out_.read, result.output, command.output_bytes_max + 1);
      if (result.output.size() > command.output_bytes_max) {
        return Fail(ErrorCode::kInvalid, "run \"" + command.program + "\": printed too much");
      }
      Drain(err_.read, result.error_output, SIZE_MAX);
      if (result.error_output.size() > kErrorBytesKept) {
        result.error_output.erase(0, result.error_output.size() - kErrorBytesKept);
      }
      if (!ended) continue;
      result.exit_code = End();
      return result;
    }
  }

 private:
  // True if the program itself has ended. Open pipes prove nothing: children of the program may keep them open for
  // ever.
  [[nodiscard]] bool Wait(const CallOptions& options) const {
    std::array<pollfd, 3> polled{
        {{process_.get(), POLLIN, 0}, {out_.read.get(), POLLIN, 0}, {err_.read.get(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(options.deadline - std::chrono::steady_clock::now());
    const auto wait_ms = std::clamp<std::int64_t>(left.count(), 0, kStopCheckMs);
    if (poll(polled.data(), polled.size(), static_cast<int>(wait_ms)) <= 0) return false;
    return polled[0].revents != 0;
  }

  // Reads the available data until `into` has `bytes_max` bytes. At the end of the file, closes the descriptor, because
  // poll would return at once for it.
  static void Drain(File& file, std::string& into, std::size_t bytes_max) {
    while (file.get() >= 0 && into.size() < bytes_max) {
      std::array<char, 4096> chunk{};
      const ssize_t got = read(file.get(), chunk.data(), std::min(chunk.size(), bytes_max - into.size()));
      if (got > 0) {
        into.append(chunk.data(), static_cast<std::size_t>(got));
      } else if (got < 0 && errno == EINTR) {
        continue;
      } else {
        if (got == 0) file.Close();
        return;
      }
    }
  }

  // Kills the rest of the process group and returns the program's exit code.
  int End() {
    if (pid_ < 0) return 0;
    kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t pid_ = -1;
  File process_;  // a pidfd: readable when the process ends
  Pipe out_;
  Pipe err_;
};

}  // namespace

Expected<ChildResult> RunChild(const ChildCommand& command, const CallOptions& options) {
  Child child;
  const Expected<void> started = child.Start(command);
  if (!started) return std::unexpected(started.error());
  return child.Finish(command, options);
}

}  // namespace berth::k8sclient
