// SPDX-License-Identifier: Apache-2.0
// One GET; the server closes the connection after its answer.
#include "http/http_probe.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace berth::http {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

constexpr std::size_t kAnswerBytesMax = std::size_t{1} << 20;

class Connection {
 public:
  Connection() : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Connection(Connection&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Connection& operator=(Connection&&) = delete;
  ~Connection() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Expected<Connection> Connect(const ProbeOptions& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.socket.size() >= sizeof(address.sun_path)) {
    return Fail(ErrorCode::kInvalid, "--socket " + options.socket + ": at most 107 characters are possible");
  }
  options.socket.copy(address.sun_path, options.socket.size());
  Connection connection;
  if (connection.descriptor() < 0) return Fail(ErrorCode::kUnavailable, std::string("socket: ") + std::strerror(errno));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options.wait_max);
  const timeval limit{.tv_sec = seconds.count(),
                      .tv_usec = std::chrono::microseconds(options.wait_max - seconds).count()};
  setsockopt(connection.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(connection.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(connection.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Fail(ErrorCode::kUnavailable, options.socket + ": " + std::strerror(errno));
  }
  return connection;
}

// All until the server closes.
Expected<std::string> Ask(const Connection& connection, const std::string& request) {
  if (send(connection.descriptor(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return Fail(ErrorCode::kUnavailable, std::string("send: ") + std::strerror(errno));
  }
  std::string answer;
  while (answer.size() < kAnswerBytesMax) {
    std::array<char, 4096> chunk{};
    const ssize_t count = recv(connection.descriptor(), chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EAGAIN) return Fail(ErrorCode::kTimeout, "no answer in time");
    if (count <= 0) break;
    answer.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return answer;
}

}  // namespace

Expected<std::string> Probe(const ProbeOptions& options) {
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  constexpr std::string_view kHeadEnd = "\r\n\r\n";
  const auto connection = Connect(options);
  if (!connection) return std::unexpected(connection.error());
  const std::string path = options.asks_ready ? "/readyz" : "/healthz";
  const auto answer = Ask(*connection, "GET " + path + " HTTP/1.1\r\nHost: berth\r\n\r\n");
  if (!answer) return std::unexpected(answer.error().Within(options.socket));
  const std::size_t head_end = answer->find(kHeadEnd);
  if (!answer->starts_with(kVersion) || head_end == std::string::npos) {
    return Fail(ErrorCode::kDecode, options.socket + ": the program that answers is not an HTTP server");
  }
  std::string body = answer->substr(head_end + kHeadEnd.size());
  if (answer->compare(kVersion.size(), 4, "200 ") != 0) return Fail(ErrorCode::kNotReady, std::move(body));
  return body;
}

}  // namespace berth::http
