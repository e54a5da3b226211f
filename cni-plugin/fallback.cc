// SPDX-License-Identifier: Apache-2.0
// A file in memory for stdin, because a pipe would not take a large configuration without somebody to fill it.
#include "cni-plugin/fallback.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <climits>

#include "cni-plugin/descriptor.h"

namespace berth::cni_plugin {
namespace {

constexpr std::string_view kName = "berth-direct";
constexpr const char* kStarted = "BERTH_STARTED_BOOT_NANOS";

ipam::Error Failure(const std::string& what) {
  return {.code = ipam::ErrorCode::kIo,
          .message = "no berth-agent answers, and " + what + ": " + std::strerror(errno),
          .details = "ipam.direct is fallback: install berth-direct in the folder of berth"};
}

// Empty with errno: it cannot be told.
std::string OwnFolder() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return {};
  const std::string_view own(path.data(), static_cast<std::size_t>(length));
  return std::string(own.substr(0, own.rfind('/') + 1));
}

bool PutOnStdin(std::string_view text) {
  const Descriptor file(memfd_create("berth-stdin", MFD_CLOEXEC));
  if (!file.is_open()) return false;
  while (!text.empty()) {
    const ssize_t count = write(file.number(), text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return lseek(file.number(), 0, SEEK_SET) == 0 && dup2(file.number(), STDIN_FILENO) == STDIN_FILENO;
}

}  // namespace

std::int64_t CallStart(std::int64_t now) {
  const char* const text = std::getenv(kStarted);
  if (text == nullptr) return now;
  const char* const stop = text + std::strlen(text);
  std::int64_t started = 0;
  const auto [end, error] = std::from_chars(text, stop, started);
  return error == std::errc() && end == stop && started > 0 && started <= now ? started : now;
}

ipam::Error RunDirectPlugin(std::string_view stdin_text, std::int64_t started_nanos) {
  std::string name(kName);
  std::string path = OwnFolder();
  if (path.empty()) return Failure("the folder of this program cannot be told");
  path += name;
  if (!PutOnStdin(stdin_text)) return Failure("stdin cannot be handed to " + path);
  // Before the others: of two with one name the first counts.
  std::string started = std::string(kStarted) + "=" + std::to_string(started_nanos);
  std::vector<char*> variables = {started.data()};
  for (char* const* variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);
  // An ignored signal stays ignored in what is executed.
  std::signal(SIGPIPE, SIG_DFL);
  std::array<char*, 2> arguments = {name.data(), nullptr};
  execve(path.c_str(), arguments.data(), variables.data());
  const ipam::Error error = Failure("cannot execute " + path);
  std::signal(SIGPIPE, SIG_IGN);
  return error;
}

}  // namespace berth::cni_plugin
