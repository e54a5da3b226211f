// SPDX-License-Identifier: Apache-2.0
// The two sockets: where they listen, and how many workers each has.
#include "http/http_server.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <random>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "http/http_listener.h"

namespace berth::http {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kOneInKept = 8;
constexpr std::size_t kTcpWorkers = 4;
constexpr std::size_t kTcpConnectionsMax = 64;
constexpr std::size_t kTcpBodyBytesMax = std::size_t{64} << 10;

std::unexpected<ipam::Error> FailIo(const std::string& what) {
  return Fail(ErrorCode::kIo, what + ": " + std::strerror(errno));
}

// Under which the kernel knows it.
int PortOf(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // Both families have it at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// A socket that is to listen, until it does.
class Socket {
 public:
  explicit Socket(int family) : descriptor_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// A numeric address and the ports that may be tried there.
struct TcpPlace {
  sockaddr_storage address = {};
  socklen_t size = 0;
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// The whole text is a port. getaddrinfo would take "-1" and "65536", too.
std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [rest, wrong] = std::from_chars(text.begin(), text.end(), port);
  if (wrong != std::errc() || rest != text.end()) return std::nullopt;
  return port;
}

Expected<TcpPlace> ParseTcpPlace(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    return Fail(ErrorCode::kInvalid, "address " + ipam::Quoted(text) + " has no port; write it as 127.0.0.1:9745");
  const std::string_view ports = std::string_view(text).substr(colon + 1);
  const std::size_t dash = ports.find('-');
  const auto first = ParsePort(ports.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : ParsePort(ports.substr(dash + 1));
  const bool is_range = dash != std::string_view::npos;
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (!first || !last || *last < *first || (is_range && *first == 0) ||
      getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &found) != 0) {
    return Fail(ErrorCode::kInvalid,
                "address " + ipam::Quoted(text) +
                    " is no address and port; write it as 127.0.0.1:9745, or with a range of ports as "
                    "127.0.0.1:9746-9749");
  }
  TcpPlace place{.size = found->ai_addrlen, .first = *first, .last = *last};
  std::memcpy(&place.address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return place;
}

// The descriptor of a socket that listens there. -1: it does not, and errno says why.
int ListenOn(TcpPlace place, std::uint16_t port, bool shares_port) {
  // Both families have it at the same place.
  reinterpret_cast<sockaddr_in*>(&place.address)->sin_port = htons(port);
  Socket socket(place.address.ss_family);
  const int descriptor = socket.descriptor();
  const int on = 1;
  // SO_REUSEPORT: a successor listens while this process still does, as on the UNIX socket.
  const int shared = shares_port ? 1 : 0;
  const bool listening = descriptor >= 0 && setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                         setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)) == 0 &&
                         bind(descriptor, reinterpret_cast<const sockaddr*>(&place.address), place.size) == 0 &&
                         listen(descriptor, kBacklog) == 0;
  if (listening) return socket.Release();
  const int why = errno;
  if (descriptor >= 0) close(socket.Release());
  errno = why;
  return -1;
}

}  // namespace

HttpServer::HttpServer(HttpServerOptions options, HttpHandlers handlers)
    : options_(std::move(options)), handlers_(std::move(handlers)) {}

HttpServer::~HttpServer() { StopAccepting(); }

Expected<std::unique_ptr<HttpServer>> HttpServer::Make(HttpServerOptions options, HttpHandlers handlers) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(options), std::move(handlers)));
  // First what another process may have: then nobody's socket has been replaced.
  if (!server->options_.tcp_address.empty()) {
    if (auto listening = server->ListenTcp(); !listening) return std::unexpected(listening.error());
  }
  if (!server->options_.socket_path.empty()) {
    if (auto listening = server->ListenLocal(); !listening) return std::unexpected(listening.error());
  }
  return server;
}

void HttpServer::StopAccepting() {
  for (const auto& listener : listeners_) listener->StopAccepting();
}

Expected<void> HttpServer::ListenLocal() {
  const std::string& path = options_.socket_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Fail(ErrorCode::kInvalid,
                "socket " + path + " has " + std::to_string(path.size()) + " characters, at most 107 are possible");
  }
  // Bound under another name and moved into place: the path never leads to a socket on which nobody has listened.
  const std::string part = path.substr(0, 96) + "." + std::to_string(std::random_device{}());
  part.copy(address.sun_path, part.size());
  Socket socket(AF_UNIX);
  if (socket.descriptor() < 0) return FailIo("socket");
  const mode_t before = umask(0177);
  const int bound = bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  umask(before);
  if (bound != 0) return FailIo("bind socket " + path);
  const bool is_there = listen(socket.descriptor(), kBacklog) == 0 && rename(part.c_str(), path.c_str()) == 0;
  if (!is_there) {
    auto failure = FailIo("listen on " + path);
    unlink(part.c_str());
    return failure;
  }
  auto listener = HttpListener::Make(socket.Release(),
                                     {.is_local = true,
                                      .workers = options_.workers,
                                      .kept_workers = options_.workers / kOneInKept,
                                      .reading_max = options_.reading_max,
                                      .waiting_max = options_.waiting_max,
                                      .body_bytes_max = options_.body_bytes_max,
                                      .io_max = options_.io_max},
                                     handlers_);
  if (!listener) return std::unexpected(listener.error());
  listeners_.push_back(*std::move(listener));
  return {};
}

Expected<void> HttpServer::ListenTcp() {
  const auto place = ParseTcpPlace(options_.tcp_address);
  if (!place) return std::unexpected(place.error());
  int descriptor = -1;
  for (unsigned port = place->first; port <= place->last && descriptor < 0; ++port) {
    descriptor = ListenOn(*place, static_cast<std::uint16_t>(port), options_.shares_port);
    if (descriptor < 0 && errno != EADDRINUSE) break;
  }
  if (descriptor < 0) return FailIo("listen on " + options_.tcp_address);
  tcp_port_ = PortOf(descriptor);
  auto listener = HttpListener::Make(descriptor,
                                     {.is_local = false,
                                      .workers = kTcpWorkers,
                                      .kept_workers = 0,
                                      .reading_max = kTcpConnectionsMax,
                                      .waiting_max = kTcpConnectionsMax,
                                      .body_bytes_max = kTcpBodyBytesMax,
                                      .io_max = options_.io_max},
                                     handlers_);
  if (!listener) return std::unexpected(listener.error());
  listeners_.push_back(*std::move(listener));
  return {};
}

}  // namespace berth::http
