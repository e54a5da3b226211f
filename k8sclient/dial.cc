// SPDX-License-Identifier: Apache-2.0
// Dial: getaddrinfo in a thread of its own, and several connection attempts at once.
#include "k8sclient/dial.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNextAttemptAfter{250};
constexpr std::size_t kAddressesMax = 8;
constexpr int kKeepAliveIdleSeconds = 15;
constexpr int kKeepAliveIntervalSeconds = 5;
constexpr unsigned kUserTimeoutMs = 30'000;  // sent data unacknowledged for that long: the peer is gone

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

struct Lookup {
  ~Lookup() {
    if (done >= 0) close(done);
  }
  int done = -1;  // an eventfd, readable when the rest is filled in
  int failure = 0;
  std::vector<SocketAddress> addresses;
};

void LookUp(Lookup& lookup, const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  lookup.failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  for (const addrinfo* entry = found; entry != nullptr && lookup.addresses.size() < kAddressesMax;
       entry = entry->ai_next) {
    SocketAddress& address = lookup.addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
  }
  if (found != nullptr) freeaddrinfo(found);
}

Expected<std::vector<SocketAddress>> Resolve(const std::string& host, std::uint16_t port, Waiter& waiter) {
  const auto lookup = std::make_shared<Lookup>();
  LookUp(*lookup, host, port, AI_NUMERICHOST);
  if (lookup->failure == 0) return std::move(lookup->addresses);
  // getaddrinfo may wait for minutes on a name server that does not answer and cannot be interrupted: so the thread
  // that waits is not ours, and may outlive us.
  lookup->done = eventfd(0, EFD_CLOEXEC);
  if (lookup->done < 0) return Fail(ErrorCode::kUnavailable, std::string("eventfd: ") + std::strerror(errno));
  std::thread([lookup, host, port] {
    LookUp(*lookup, host, port, AI_ADDRCONFIG);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(lookup->done, &one, sizeof(one));
  }).detach();
  std::array<pollfd, 1> polled{{{.fd = lookup->done, .events = POLLIN, .revents = 0}}};
  const Expected<int> ready = waiter.Wait(polled);
  if (!ready) return std::unexpected(ready.error().Within("resolve \"" + host + "\""));
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(lookup->done, &count, sizeof(count));
  if (lookup->failure != 0) {
    return Fail(ErrorCode::kUnavailable,
                "resolve \"" + host + "\": " + gai_strerror(lookup->failure),
                "check server in the kubeconfig, and this machine's name servers");
  }
  return std::move(lookup->addresses);
}

template <typename T>
void SetOption(int socket, int level, int name, T value) {
  setsockopt(socket, level, name, &value, sizeof(value));  // what an old kernel does not know is only missed
}

// The attempts under way, closed when they are no longer wanted.
class Attempts {
 public:
  Attempts() = default;
  Attempts(const Attempts&) = delete;
  Attempts& operator=(const Attempts&) = delete;
  ~Attempts() {
    for (const pollfd& attempt : open_) close(attempt.fd);
  }

  void Begin(const SocketAddress& address) {
    const int opened = socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (opened < 0) {
      failure_ = errno;
      return;
    }
    SetOption(opened, IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(opened, SOL_SOCKET, SO_KEEPALIVE, 1);
    SetOption(opened, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    SetOption(opened, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
    SetOption(opened, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    if (connect(opened, address.get(), address.size) != 0 && errno != EINPROGRESS) {
      failure_ = errno;
      close(opened);
      return;
    }
    open_.push_back({.fd = opened, .events = POLLOUT, .revents = 0});
  }

  // Waits for one of them, at most until then. The socket of one that stands; -1 if none does yet.
  [[nodiscard]] Expected<int> Await(Waiter& waiter, steady_clock::time_point until) {
    const Expected<int> ready = waiter.Wait(open_, until);
    if (!ready) return std::unexpected(ready.error());
    for (auto attempt = open_.begin(); *ready > 0 && attempt != open_.end();) {
      if (attempt->revents == 0) {
        ++attempt;
        continue;
      }
      int failure = 0;
      socklen_t size = sizeof(failure);
      getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &failure, &size);
      const int socket = attempt->fd;
      attempt = open_.erase(attempt);
      if (failure == 0) return socket;
      failure_ = failure;
      close(socket);
    }
    return -1;
  }

  [[nodiscard]] std::size_t count() const { return open_.size(); }
  [[nodiscard]] int failure() const { return failure_; }

 private:
  std::vector<pollfd> open_;
  int failure_ = 0;  // of the attempt that failed last
};

}  // namespace

Expected<int> Dial(const std::string& host, std::uint16_t port, Waiter& waiter) {
  const Expected<std::vector<SocketAddress>> addresses = Resolve(host, port, waiter);
  if (!addresses) return std::unexpected(addresses.error());
  const std::string what = "connect to \"" + host + "\" port " + std::to_string(port);
  Attempts attempts;
  for (std::size_t next = 0; next < addresses->size() || attempts.count() > 0;) {
    if (next < addresses->size()) attempts.Begin((*addresses)[next++]);
    const auto next_at = steady_clock::now() + kNextAttemptAfter;
    while (attempts.count() > 0) {
      const bool last = next == addresses->size();
      const std::size_t before = attempts.count();
      const Expected<int> socket = attempts.Await(waiter, last ? steady_clock::time_point::max() : next_at);
      if (!socket) return std::unexpected(socket.error().Within(what));
      if (*socket >= 0) return *socket;
      if (!last && (attempts.count() < before || steady_clock::now() >= next_at)) break;
    }
  }
  return Fail(ErrorCode::kUnavailable,
              what + ": " + std::strerror(attempts.failure()),
              "check server in the kubeconfig, and that the API server runs");
}

}  // namespace berth::k8sclient
