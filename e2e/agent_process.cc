// SPDX-License-Identifier: Apache-2.0
// AgentProcess: a child process with a log file, and HTTP/1.1 over its UNIX socket.
#include "e2e/agent_process.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "e2e/http_message.h"

namespace berth::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kStatusLine = "HTTP/1.1 ";
constexpr int kKilledBySignal = 128;
constexpr int kPollMillis = 2;

// Gives the child default signals, as a service manager does, although tests ignore SIGPIPE.
void UseDefaultSignals(posix_spawnattr_t& attributes) {
  sigset_t all{};
  ::sigfillset(&all);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  sigset_t none{};
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

std::vector<std::string> ArgumentsOf(const AgentSettings& settings) {
  std::vector<std::string> arguments = {settings.binary,
                                        "--node",
                                        settings.node,
                                        "--kubeconfig",
                                        settings.kubeconfig,
                                        "--socket",
                                        settings.socket,
                                        "--state",
                                        settings.state_dir};
  arguments.insert(arguments.end(), settings.more.begin(), settings.more.end());
  return arguments;
}

}  // namespace

std::optional<HttpReply> GetOverSocket(const std::string& socket_path, std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  // An agent that is ending may never answer a connection.
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::string text;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + std::string(path) + " HTTP/1.1\r\nHost: berth\r\n\r\n";
    static_cast<void>(::send(fd, request.data(), request.size(), MSG_NOSIGNAL));
    std::array<char, 65536> buffer{};
    for (ssize_t count = 0; (count = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }
  ::close(fd);
  const std::size_t head_end = text.find(kHeadEnd);
  if (!text.starts_with(kStatusLine) || head_end == std::string::npos) return std::nullopt;
  return HttpReply{.status = static_cast<int>(std::strtol(text.c_str() + kStatusLine.size(), nullptr, 10)),
                   .body = text.substr(head_end + kHeadEnd.size())};
}

double MetricOf(const std::string& socket_path, std::string_view name, std::string_view label) {
  const auto reply = GetOverSocket(socket_path, "/metrics");
  if (!reply) throw std::runtime_error("no metrics from " + socket_path);
  double sum = 0;
  std::istringstream lines(reply->body);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t name_end = line.find_first_of("{ ");
    if (line.substr(0, name_end) != name || line.find(label) == std::string::npos) continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return sum;
}

AgentProcess::AgentProcess(AgentSettings settings) : settings_(std::move(settings)) {
  std::vector<std::string> texts = ArgumentsOf(settings_);
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, settings_.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  UseDefaultSignals(attributes);
  std::array<char*, 1> environment = {nullptr};
  const int error =
      ::posix_spawn(&pid_, settings_.binary.c_str(), &actions, &attributes, arguments.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "start " + settings_.binary);
  end_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

AgentProcess::~AgentProcess() {
  Kill();
  ::close(end_fd_);
}

bool AgentProcess::AwaitReady(milliseconds limit) const {
  for (const auto deadline = steady_clock::now() + limit; steady_clock::now() < deadline;) {
    const auto reply = GetOverSocket(settings_.socket, "/readyz");
    if (reply && reply->status == 200) return true;
    pollfd end{.fd = end_fd_, .events = POLLIN, .revents = 0};
    if (::poll(&end, 1, kPollMillis) == 1) return false;
  }
  return false;
}

void AgentProcess::Signal(int number) const { ::syscall(SYS_pidfd_send_signal, end_fd_, number, nullptr, 0); }

std::optional<int> AgentProcess::AwaitEnd(milliseconds limit) {
  if (exit_code_) return exit_code_;
  pollfd end{.fd = end_fd_, .events = POLLIN, .revents = 0};
  if (::poll(&end, 1, static_cast<int>(limit.count())) != 1) return std::nullopt;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kKilledBySignal + WTERMSIG(status);
  return exit_code_;
}

void AgentProcess::Kill() {
  if (exit_code_) return;
  Signal(SIGKILL);
  static_cast<void>(AwaitEnd(std::chrono::minutes(1)));
}

}  // namespace berth::e2e
