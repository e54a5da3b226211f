// SPDX-License-Identifier: Apache-2.0
// A file in memory for stdin, because a pipe would not take a large configuration without somebody to fill it.
#include "cni-plugin/fallback.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>

#include "cni-plugin/descriptor.h"

namespace berth::cni_plugin {
namespace {

constexpr std::string_view kName = "berth-direct";

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

ipam::Error RunDirectPlugin(std::string_view stdin_text) {
  std::string name(kName);
  std::string path = OwnFolder();
  if (path.empty()) return Failure("the folder of this program cannot be told");
  path += name;
  if (!PutOnStdin(stdin_text)) return Failure("stdin cannot be handed to " + path);
  // An ignored signal stays ignored in what is executed.
  std::signal(SIGPIPE, SIG_DFL);
  std::array<char*, 2> arguments = {name.data(), nullptr};
  execv(path.c_str(), arguments.data());
  const ipam::Error error = Failure("cannot execute " + path);
  std::signal(SIGPIPE, SIG_IGN);
  return error;
}

}  // namespace berth::cni_plugin
