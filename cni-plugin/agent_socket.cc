// SPDX-License-Identifier: Apache-2.0
// connect(2), inotify(7) and poll(2).
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

// How long a change that inotify does not tell may go unseen: listen(2) on a socket file that was there before, or a
// user's limit of inotify instances that others have used up.
constexpr std::chrono::milliseconds kLookAgain{100};

// Until there is something to do on `descriptor` or the deadline has passed; false: it has.
bool Await(int descriptor, short events, Deadline deadline) {
  pollfd waited{.fd = descriptor, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&waited, 1, deadline.PollMillis());
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

// Changes in the folder of a socket, or in the nearest one above it that exists.
class FolderWatch {
 public:
  explicit FolderWatch(const std::string& path) : path_(path), inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    WatchNearest();
  }

  // Returns early after a change, late never.
  void Await(Deadline deadline) {
    if (!cni_plugin::Await(inotify_.number(), POLLIN, std::min(deadline, Deadline::In(kLookAgain)))) return;
    std::array<char, 4096> events{};
    while (read(inotify_.number(), events.data(), events.size()) > 0) {
    }
    WatchNearest();
  }

 private:
  // Before the connect that follows, so that nothing happens unseen between the two.
  void WatchNearest() {
    std::string folder = path_;
    do {
      folder.resize(folder.rfind('/'));
    } while (!folder.empty() && inotify_add_watch(inotify_.number(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0);
  }

  const std::string& path_;
  Descriptor inotify_;
};

std::string ErrnoText(int error) { return std::strerror(error); }

// Errors: an errno; EAGAIN: the deadline. `sent`: how much went out.
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
    // A blocking connect with a time limit: a non-blocking one fails at once where the queue of the listening socket is
    // full, and there is nothing to poll for.
    const auto left =
        std::max(std::chrono::ceil<std::chrono::microseconds>(deadline.Left()), std::chrono::microseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timeval limit{.tv_sec = seconds.count(), .tv_usec = (left - seconds).count()};
    setsockopt(connection.number(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
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
  const int failure = SendAll(connection.number(), request, deadline, sent);
  if (failure != 0 && sent == 0) {
    return Fail(ErrorCode::kUnavailable, "send to berth-agent: " + ErrnoText(failure), "nothing was sent");
  }
  if (failure == EAGAIN) return Unknown("berth-agent has not read the call in time");
  // One that closes early may have answered first.
  return Receive(connection.number(), deadline);
}

}  // namespace berth::cni_plugin
