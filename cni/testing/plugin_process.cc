// SPDX-License-Identifier: Apache-2.0
// A child process with three pipes, driven by poll.
#include "cni/testing/plugin_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace berth::cni_testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

[[noreturn]] void Throw(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

struct PipeEnds {
  int read_end = -1;
  int write_end = -1;
};

PipeEnds MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) Throw("pipe2", errno);
  return {.read_end = ends[0], .write_end = ends[1]};
}

void CloseIfOpen(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// Reads once and returns the result of read(2).
ssize_t ReadSome(int fd, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count;
}

// Reads the bytes that are in the pipe now, even if other processes still have its other end open.
void ReadRest(int fd, std::string& text) {
  if (fd < 0) return;
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  while (ReadSome(fd, text) > 0) {
  }
}

// posix_spawn's file actions, destroyed by the destructor.
class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  [[nodiscard]] posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Gives the child default signals, as a runtime does, although tests ignore SIGPIPE.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t all{};
    ::sigfillset(&all);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    sigset_t none{};
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  [[nodiscard]] posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Runs `spawn` in a process made for it, which then waits to be killed; sets `parent` to that process. Returns what
// `spawn` returned.
pid_t InAnotherProcess(const auto& spawn, pid_t& parent) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that this process can wait for the orphan
  PipeEnds result = MakePipe();
  parent = ::fork();
  if (parent < 0) Throw("fork", errno);
  if (parent == 0) {
    const pid_t spawned = spawn();
    if (::write(result.write_end, &spawned, sizeof(spawned)) != sizeof(spawned)) ::_exit(1);
    while (true) ::pause();
  }
  pid_t spawned = -ECHILD;
  const ssize_t count = ::read(result.read_end, &spawned, sizeof(spawned));
  CloseIfOpen(result.read_end);
  CloseIfOpen(result.write_end);
  return count == sizeof(spawned) ? spawned : -ECHILD;
}

}  // namespace

PluginProcess::PluginProcess(PluginCall call) : call_(std::move(call)), started_(steady_clock::now()) {
  [[maybe_unused]] static const auto kBefore = ::signal(SIGPIPE, SIG_IGN);
  PipeEnds in = MakePipe();
  PipeEnds out = MakePipe();
  PipeEnds err = MakePipe();
  stdin_fd_ = in.write_end;
  stdout_fd_ = out.read_end;
  stderr_fd_ = err.read_end;
  // Writes must not block, because the plugin may stop reading.
  ::fcntl(stdin_fd_, F_SETFL, O_NONBLOCK);
  if (call_.is_fed_at_start && !call_.input.empty()) Feed();
  if (call_.is_fed_at_start && call_.input.empty()) CloseIfOpen(stdin_fd_);
  if (call_.out == Stdout::kReaderGone) CloseIfOpen(stdout_fd_);
  Start(in.read_end, out.write_end, err.write_end);
  CloseIfOpen(in.read_end);
  CloseIfOpen(out.write_end);
  CloseIfOpen(err.write_end);
  if (call_.in == Stdin::kClosed || call_.in == Stdin::kDirectory || call_.in == Stdin::kDescriptor) {
    CloseIfOpen(stdin_fd_);
  }
  if (pid_ < 0) return;
  end_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (end_fd_ < 0) Throw("pidfd_open", errno);
}

void PluginProcess::Start(int stdin_end, int stdout_end, int stderr_end) {
  FileActions actions;
  switch (call_.in) {
    case Stdin::kBytes:
    case Stdin::kNeverEnds:
    case Stdin::kFlood:
      ::posix_spawn_file_actions_adddup2(actions.get(), stdin_end, STDIN_FILENO);
      break;
    case Stdin::kClosed:
      ::posix_spawn_file_actions_addclose(actions.get(), STDIN_FILENO);
      break;
    case Stdin::kDirectory:
      ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/", O_RDONLY, 0);
      break;
    case Stdin::kDescriptor:
      ::posix_spawn_file_actions_adddup2(actions.get(), call_.descriptor, STDIN_FILENO);
      break;
  }
  ::posix_spawn_file_actions_adddup2(actions.get(), stdout_end, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(actions.get(), stderr_end, STDERR_FILENO);

  std::vector<std::string> variables;
  for (const auto& [name, value] : call_.environment) variables.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  Attributes attributes;
  std::array<char*, 2> arguments = {call_.binary.data(), nullptr};
  // The plugin's process ID, or a negative errno.
  const auto spawn = [&] {
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, arguments[0], actions.get(), attributes.get(), arguments.data(), environment.data());
    return error == 0 ? pid : -error;
  };
  const pid_t started = call_.has_mortal_parent ? InAnotherProcess(spawn, parent_) : spawn();
  if (started > 0) {
    pid_ = started;
  } else {
    start_error_ = "start " + call_.binary + ": " + std::generic_category().message(-started);
  }
}

PluginProcess::~PluginProcess() {
  if (parent_ > 0) KillParent();
  if (pid_ > 0) {
    Signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  CloseIfOpen(end_fd_);
  CloseIfOpen(stdin_fd_);
  CloseIfOpen(stdout_fd_);
  CloseIfOpen(stderr_fd_);
}

void PluginProcess::Signal(int number) const { ::syscall(SYS_pidfd_send_signal, end_fd_, number, nullptr, 0); }

void PluginProcess::KillParent() {
  ::kill(parent_, SIGKILL);
  ::waitpid(std::exchange(parent_, -1), nullptr, 0);
}

void PluginProcess::CloseOutput() { CloseIfOpen(stdout_fd_); }

bool PluginProcess::AwaitReading(milliseconds limit) const {
  // "0 0x0 ...": the number of the process's system call (0 is read on x86-64), and its first argument, descriptor 0.
  const std::string path = "/proc/" + std::to_string(pid_) + "/syscall";
  for (const auto deadline = steady_clock::now() + limit; steady_clock::now() < deadline;) {
    std::string call;
    std::getline(std::ifstream(path) >> std::ws, call);
    if (call.starts_with(std::to_string(SYS_read) + " 0x0 ")) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

// Writes one chunk. At the end of the input, or if the plugin has closed stdin, closes the pipe.
void PluginProcess::Feed() {
  static const std::string kFlood(65536, 'x');
  const bool is_flood = written_ == call_.input.size();
  const std::string_view chunk =
      is_flood ? std::string_view(kFlood) : std::string_view(call_.input).substr(written_, call_.chunk_bytes);
  const ssize_t count = ::write(stdin_fd_, chunk.data(), chunk.size());
  if (count > 0 && !is_flood) written_ += static_cast<std::size_t>(count);
  const bool reader_gone = count < 0 && errno == EPIPE;
  if (reader_gone || (written_ == call_.input.size() && call_.in == Stdin::kBytes)) CloseIfOpen(stdin_fd_);
}

PluginOutcome PluginProcess::Wait(milliseconds limit) {
  PluginOutcome outcome;
  if (!start_error_.empty()) {
    outcome.exit_code = 127;  // a shell's exit code if it finds no program
    outcome.err = start_error_;
    return outcome;
  }
  const auto deadline = steady_clock::now() + limit;
  bool ended = false;
  // A child of the plugin may keep the pipes open, so the loop waits for the plugin's end. The plugin's output is then
  // in the pipes.
  while (!ended) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) {
      outcome.timed_out = true;
      Signal(SIGKILL);
    }
    const bool feeding = stdin_fd_ >= 0 && (written_ < call_.input.size() || call_.in == Stdin::kFlood);
    std::array<pollfd, 4> fds = {{{.fd = end_fd_, .events = POLLIN, .revents = 0},
                                  {.fd = stdout_fd_, .events = POLLIN, .revents = 0},
                                  {.fd = stderr_fd_, .events = POLLIN, .revents = 0},
                                  {.fd = feeding ? stdin_fd_ : -1, .events = POLLOUT, .revents = 0}}};
    if (stdin_fd_ >= 0 && !feeding && call_.in == Stdin::kBytes) CloseIfOpen(stdin_fd_);
    ::poll(fds.data(), fds.size(), outcome.timed_out ? 1000 : static_cast<int>(left.count()));
    if (fds[3].revents != 0) Feed();
    if (fds[1].revents != 0 && ReadSome(stdout_fd_, outcome.out) == 0) CloseIfOpen(stdout_fd_);
    if (fds[2].revents != 0 && ReadSome(stderr_fd_, outcome.err) == 0) CloseIfOpen(stderr_fd_);
    ended = fds[0].revents != 0;
  }
  ReadRest(stdout_fd_, outcome.out);
  ReadRest(stderr_fd_, outcome.err);
  int status = 0;
  ended_ = true;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - started_);
  return outcome;
}

PluginOutcome RunPlugin(PluginCall call, milliseconds limit) { return PluginProcess(std::move(call)).Wait(limit); }

}  // namespace berth::cni_testing
