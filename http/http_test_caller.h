// SPDX-License-Identifier: Apache-2.0
// HttpTestCaller: one connection to a server under test, which a test uses step by step.
#pragma once

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

namespace berth::http {

class HttpTestCaller {
 public:
  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(60);  // only a failing test waits so long

  explicit HttpTestCaller(const std::string& path) : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  // Connects to 127.0.0.1.
  explicit HttpTestCaller(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<std::uint16_t>(port)),
                              .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
                              .sin_zero = {}};
    Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  HttpTestCaller(HttpTestCaller&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), connect_error_(other.connect_error_) {}
  HttpTestCaller& operator=(HttpTestCaller&&) = delete;
  ~HttpTestCaller() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  // errno of connect; 0: connected.
  [[nodiscard]] int connect_error() const { return connect_error_; }

  void Send(std::string_view text) const {
    EXPECT_EQ(send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // False if the text cannot be sent.
  [[nodiscard]] bool Push(std::string_view text) const {
    return send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  void SendGet(const std::string& path) const { Send("GET " + path + " HTTP/1.1\r\n\r\n"); }

  // Everything that the server sends until it ends the connection, or until `limit` has passed.
  [[nodiscard]] std::string Receive(std::chrono::milliseconds limit = kLimit) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    std::string text;
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
      pollfd polled{.fd = descriptor_, .events = POLLIN, .revents = 0};
      if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) return text;
      std::array<char, 4096> buffer{};
      const ssize_t count = recv(descriptor_, buffer.data(), buffer.size(), 0);
      if (count <= 0) return text;
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }
  // True if the server ends the connection within kLimit, without an answer.
  [[nodiscard]] bool IsClosed() const {
    pollfd polled{.fd = descriptor_, .events = POLLIN, .revents = 0};
    char byte = 0;
    return poll(&polled, 1, static_cast<int>(kLimit.count())) > 0 && recv(descriptor_, &byte, 1, 0) <= 0;
  }
  // The answer's status, such as "200"; empty: no answer came.
  [[nodiscard]] std::string ReceiveStatus(std::chrono::milliseconds limit = kLimit) const {
    const std::string answer = Receive(limit);
    return answer.starts_with("HTTP/1.1 ") ? answer.substr(9, 3) : "";
  }

 private:
  void Connect(const sockaddr* address, socklen_t size) {
    if (connect(descriptor_, address, size) != 0) connect_error_ = errno;
  }

  int descriptor_;
  int connect_error_ = 0;
};

}  // namespace berth::http
