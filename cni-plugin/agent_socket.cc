// SPDX-License-Identifier: Apache-2.0
// Uses connect(2), inotify(7) and poll(2).
#include "cni-plugin/agent_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace berth::cni_plugin {
namespace {

// Time between two attempts without an event of inotify. inotify does not report listen(2) on an existing socket file,
// and does not work at all if other processes have used up the user's limit of inotify instances.
constexpr std::chrono::milliseconds kLookAgain{100};

// Waits until one of `events` occurs on `descriptor`. False: the deadline has passed.
bool Await(int descriptor, short events, Deadline deadline) {
  pollfd waited{.fd = descriptor, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&waited, 1, deadline.PollMillis());
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

// Watches the folder of a socket, or the nearest parent folder that exists.
class FolderWatch {
 public:
  explicit FolderWatch(const std::string& path) : path_(path), inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    WatchNearest();
  }

  // Waits for a change in the folder, but at most kLookAgain, and not beyond `deadline`.
  void Await(Deadline deadline) {
    if (!cni_plugin::Await(inotify_.descriptor(), POLLIN, std::min(deadline, Deadline::In(kLookAgain)))) return;
    std::array<char, 4096> events{};
    while (read(inotify_.descriptor(), events.data(), events.size()) > 0) {
    }
    WatchNearest();
  }

 private:
  // Call before the next connect(2), so that the watch also sees changes between this call and the connect(2).
  void WatchNearest() {
    std::string folder = path_;
    do {
      folder.resize(folder.rfind('/'));
    } while (!folder.empty() && inotify_add_watch(inotify_.descriptor(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0);
  }

  const std::string& path_;
  Descriptor inotify_;
};

std::string ErrnoText(int error) { return std::strerror(error); }

// Returns 0 or an errno; EAGAIN: the deadline has passed. `sent`: number of bytes sent.
int SendAll(int connection, std::string_view request, Deadline deadline, std::size_t& sent) {
  while (sent < request.size()) {
    const ssize_t count = send(connection, request.data() + sent, request.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      if (!Await(connection, POLLOUT, deadline)) return EAGAIN;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

std::unexpected<Error> Unknown(const std::string& what) {
  return Fail(ErrorCode::kUnknownOutcome,
              what,
              "it is unknown whether the agent served the call; the runtime may repeat the call");
}

Expected<AgentAnswer> Receive(int connection, Deadline deadline) {
  std::string bytes;
  while (true) {
    if (!Await(connection, POLLIN, deadline)) return Unknown("berth-agent has not answered in time");
    std::array<char, 16384> chunk;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by recv
    const ssize_t count = recv(connection, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return Unknown("berth-agent's connection broke before its answer: " + ErrnoText(errno));
    if (count == 0) return Unknown("berth-agent has closed the connection before its answer was complete");
    bytes.append(chunk.data(), static_cast<std::size_t>(count));
    auto answer = ParseAgentAnswer(bytes);
    if (!answer) return Unknown("the program that answers is not berth-agent: " + answer.error().message);
    if (*answer) return **std::move(answer);
  }
}

}  // namespace

std::expected<Descriptor, int> Connect(const std::string& path, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return std::unexpected(ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!connection.is_open()) return std::unexpected(errno);
  while (true) {
    // connect(2) must block, with a time limit: if the queue of the listening socket is full, a non-blocking connect
    // fails at once, and poll(2) cannot wait for room in the queue.
    const auto left =
        std::max(std::chrono::ceil<std::chrono::microseconds>(deadline.Left()), std::chrono::microseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timeval limit{.tv_sec = seconds.count(), .tv_usec = (left - seconds).count()};
    setsockopt(connection.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(connection.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      return connection;
    }
    if (errno != EINTR) return std::unexpected(errno);
  }
}

bool IsAbsence(int error) { return error == ENOENT || error == ECONNREFUSED; }

std::expected<Descriptor, int> ConnectWhenThere(const std::string& path, Deadline deadline) {
  auto connection = Connect(path, deadline);
  if (connection || !IsAbsence(connection.error())) return connection;
  FolderWatch watch(path);
  while (true) {
    connection = Connect(path, deadline);
    if (connection || !IsAbsence(connection.error()) || deadline.Passed()) return connection;
    watch.Await(deadline);
  }
}

Expected<AgentAnswer> Exchange(const Descriptor& connection, std::string_view request, Deadline deadline) {
  std::size_t sent = 0;
  const int failure = SendAll(connection.descriptor(), request, deadline, sent);
  if (failure != 0 && sent == 0) {
    return Fail(ErrorCode::kUnavailable, "send to berth-agent: " + ErrnoText(failure), "nothing was sent");
  }
  if (failure == EAGAIN) return Unknown("berth-agent has not read the call in time");
  // Read the answer even if SendAll has failed: an agent that closes the connection early may have answered before.
  return Receive(connection.descriptor(), deadline);
}

}  // namespace berth::cni_plugin
