// SPDX-License-Identifier: Apache-2.0
// Listening, accepting, and the life of a connection.
#include "agent/http_server.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/http_message.h"

namespace berth::agent {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

namespace {

constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kOverloadIoMax{100};

std::unexpected<ipam::Error> FailIo(const std::string& what) {
  return Fail(ErrorCode::kIo, what + ": " + std::strerror(errno));
}

// Root, or whoever this process runs as.
bool MayCall(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == geteuid();
}

void Deliver(int descriptor, const HttpAnswer& answer, std::chrono::milliseconds io_max) {
  // A caller that has hung up reads no answer, though a write to it may still succeed.
  const bool delivered = !HasHungUp(descriptor) && WriteAnswer(descriptor, answer, io_max);
  if (answer.done) answer.done(delivered);
}

}  // namespace

HttpServer::HttpServer(HttpServerOptions options, Handler handler, Overload overload)
    : options_(std::move(options)), handler_(std::move(handler)), overload_(std::move(overload)) {}

Expected<std::unique_ptr<HttpServer>> HttpServer::Make(HttpServerOptions options, Handler handler, Overload overload) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(options), std::move(handler), std::move(overload)));
  server->wake_ = eventfd(0, EFD_CLOEXEC);
  if (server->wake_ < 0) return FailIo("eventfd");
  if (auto listening = server->ListenLocal(); !listening) return std::unexpected(listening.error());
  if (!server->options_.tcp_address.empty()) {
    if (auto listening = server->ListenTcp(); !listening) return std::unexpected(listening.error());
  }
  for (std::size_t i = 0; i < server->options_.workers; ++i) {
    server->workers_.emplace_back([raw = server.get()] { raw->Work(); });
  }
  server->acceptor_ = std::thread([raw = server.get()] { raw->Accept(); });
  return server;
}

HttpServer::~HttpServer() {
  StopAccepting();
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    waiting_changed_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
  StopListening();
  if (wake_ >= 0) close(wake_);
}

void HttpServer::StopAccepting() {
  if (!acceptor_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof(one)));
  acceptor_.join();
  StopListening();
}

// Callers that come now find no socket and wait for the next agent. Those whom the kernel has let in are served.
void HttpServer::StopListening() {
  // Another agent may have put its own socket there meanwhile.
  struct stat now = {};
  if (socket_inode_ != 0 && stat(options_.socket_path.c_str(), &now) == 0 && now.st_ino == socket_inode_) {
    unlink(options_.socket_path.c_str());
  }
  socket_inode_ = 0;
  for (const Connection& listener : listeners_) {
    fcntl(listener.descriptor, F_SETFL, O_NONBLOCK);
    while (AcceptOne(listener)) {
    }
    close(listener.descriptor);
  }
  listeners_.clear();
}

Expected<void> HttpServer::ListenLocal() {
  const std::string& path = options_.socket_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Fail(ErrorCode::kInvalid,
                "--socket " + path + " has " + std::to_string(path.size()) + " characters, at most 107 are possible");
  }
  path.copy(address.sun_path, path.size());
  // Bound under another name and moved into place: the path never leads to a socket on which nobody listens.
  const std::string part = path.substr(0, 100) + "." + std::to_string(getpid() % 100000);
  sockaddr_un part_address = address;
  std::memset(part_address.sun_path, 0, sizeof(part_address.sun_path));
  part.copy(part_address.sun_path, sizeof(part_address.sun_path) - 1);
  unlink(part_address.sun_path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return FailIo("socket");
  listeners_.push_back({.descriptor = listener, .is_local = true});
  const mode_t before = umask(0177);
  const int bound = bind(listener, reinterpret_cast<const sockaddr*>(&part_address), sizeof(part_address));
  umask(before);
  if (bound != 0) return FailIo("bind socket " + path);
  if (listen(listener, kBacklog) != 0) return FailIo("listen on " + path);
  struct stat made = {};
  if (stat(part_address.sun_path, &made) == 0) socket_inode_ = made.st_ino;
  if (rename(part_address.sun_path, path.c_str()) != 0) return FailIo("move socket to " + path);
  return {};
}

Expected<void> HttpServer::ListenTcp() {
  const std::string& text = options_.tcp_address;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    return Fail(ErrorCode::kInvalid, "--http-address " + text + " has no port; write it as 127.0.0.1:9745");
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), text.c_str() + colon + 1, &hints, &found) != 0) {
    return Fail(ErrorCode::kInvalid, "--http-address " + text + " is no address and port; write it as 127.0.0.1:9745");
  }
  const int listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener >= 0) listeners_.push_back({.descriptor = listener, .is_local = false});
  const int on = 1;
  const bool listening = listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                         bind(listener, found->ai_addr, found->ai_addrlen) == 0 && listen(listener, kBacklog) == 0;
  freeaddrinfo(found);
  if (!listening) return FailIo("listen on " + text);
  return {};
}

void HttpServer::Accept() {
  while (true) {
    std::array<pollfd, 3> polled{};
    polled[0] = {.fd = wake_, .events = POLLIN, .revents = 0};
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      polled[i + 1] = {.fd = listeners_[i].descriptor, .events = POLLIN, .revents = 0};
    }
    if (poll(polled.data(), listeners_.size() + 1, -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (polled[i + 1].revents != 0) static_cast<void>(AcceptOne(listeners_[i]));
    }
  }
}

// False: nobody waits.
bool HttpServer::AcceptOne(const Connection& listener) {
  const int descriptor = accept4(listener.descriptor, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) return false;
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() < options_.waiting_max) {
      waiting_.push_back({.descriptor = descriptor, .is_local = listener.is_local});
      waiting_changed_.notify_one();
      return true;
    }
  }
  Deliver(descriptor, overload_(), kOverloadIoMax);
  close(descriptor);
  return true;
}

void HttpServer::Work() {
  while (true) {
    Connection connection{};
    {
      std::unique_lock lock(mutex_);
      waiting_changed_.wait(lock, [this] { return !waiting_.empty() || stopping_; });
      if (waiting_.empty()) return;
      connection = waiting_.front();
      waiting_.pop_front();
    }
    ServeConnection(connection);
    close(connection.descriptor);
  }
}

void HttpServer::ServeConnection(const Connection& connection) {
  if (connection.is_local && !MayCall(connection.descriptor)) {
    static_cast<void>(WriteAnswer(connection.descriptor, {.status = 403, .body = "{}"}, options_.io_max));
    return;
  }
  auto request = ReadRequest(connection.descriptor, options_.body_bytes_max, options_.io_max);
  if (!request) {
    const int status = request.error().code == ErrorCode::kInvalid ? 413 : 400;
    static_cast<void>(
        WriteAnswer(connection.descriptor,
                    {.status = status, .content_type = "text/plain", .body = request.error().message + "\n"},
                    options_.io_max));
    return;
  }
  request->is_local = connection.is_local;
  Deliver(connection.descriptor, handler_(*request), options_.io_max);
}

}  // namespace berth::agent
