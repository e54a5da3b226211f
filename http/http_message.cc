// SPDX-License-Identifier: Apache-2.0
// The grammar of a request, as little of it as our callers use (RFC 9112).
#include "http/http_message.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <utility>

namespace berth::http {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using Time = std::chrono::steady_clock::time_point;

namespace {

constexpr std::size_t kHeadBytesMax = std::size_t{16} << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

// Waits until the socket can be read or written. False: not by then.
bool Await(int descriptor, short events, Time end) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd polled{.fd = descriptor, .events = events, .revents = 0};
    const int ready = poll(&polled, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool SameHeader(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return false;
  return std::ranges::equal(line.substr(0, name.size()), name, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

Expected<std::size_t> ContentLength(std::string_view head) {
  std::size_t length = 0;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    std::string_view line = head.substr(0, end);
    head = end == std::string_view::npos ? std::string_view() : head.substr(end + 2);
    if (SameHeader(line, "transfer-encoding")) return Fail(ErrorCode::kDecode, "send a Content-Length, not chunks");
    if (!SameHeader(line, "content-length")) continue;
    line.remove_prefix(line.find(':') + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), length);
    if (error != std::errc() || rest != line.data() + line.size())
      return Fail(ErrorCode::kDecode, "malformed Content-Length");
  }
  return length;
}

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Bad Request" : "Internal Server Error";
  }
}

}  // namespace

Expected<bool> RequestReader::Read(int descriptor) {
  while (true) {
    std::array<char, 16384> buffer{};
    const ssize_t count = recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) return Fail(ErrorCode::kIo, "the caller ended before its request did");
    auto is_whole = Add({buffer.data(), static_cast<std::size_t>(count)});
    if (!is_whole || *is_whole) return is_whole;
  }
}

Expected<bool> RequestReader::Add(std::string_view bytes) {
  const std::size_t seen = text_.size();
  text_ += bytes;
  if (total_bytes_ == 0) {
    const std::size_t end = text_.find(kHeadEnd, seen < kHeadEnd.size() ? 0 : seen - kHeadEnd.size());
    if (std::min(end, text_.size()) > kHeadBytesMax) {
      return Fail(ErrorCode::kInvalid, "the request's head is too large");
    }
    if (end == std::string::npos) return false;
    if (auto read = ReadHead(end); !read) return std::unexpected(read.error());
  }
  return text_.size() >= total_bytes_;
}

Expected<void> RequestReader::ReadHead(std::size_t head_bytes) {
  const std::string_view head(text_.data(), head_bytes);
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t second = line.rfind(' ');
  if (first == std::string_view::npos || second <= first || !line.substr(second + 1).starts_with("HTTP/1.")) {
    return Fail(ErrorCode::kDecode, "this is no HTTP/1.1 request");
  }
  request_.method = line.substr(0, first);
  request_.path = line.substr(first + 1, second - first - 1);
  const auto length = ContentLength(head);
  if (!length) return std::unexpected(length.error());
  if (*length > body_bytes_max_) return Fail(ErrorCode::kInvalid, "the request's body is too large");
  head_bytes_ = head_bytes + kHeadEnd.size();
  total_bytes_ = head_bytes_ + *length;
  return {};
}

HttpRequest RequestReader::Take() {
  request_.body = text_.substr(head_bytes_, total_bytes_ - head_bytes_);
  return std::move(request_);
}

bool WriteAnswer(int descriptor, const HttpAnswer& answer, std::chrono::milliseconds limit) {
  const Time end = std::chrono::steady_clock::now() + limit;
  const std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " + std::string(Reason(answer.status)) +
                           "\r\nContent-Type: " + answer.content_type +
                           "\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\nConnection: close\r\n" +
                           answer.headers + "\r\n" + answer.body;
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t count = send(descriptor, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      left.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    if (!Await(descriptor, POLLOUT, end)) return false;
  }
  return true;
}

bool HasHungUp(int descriptor) {
  pollfd polled{.fd = descriptor, .events = POLLRDHUP, .revents = 0};
  if (poll(&polled, 1, 0) <= 0) return false;
  // A caller that has only ended its own side still reads.
  return (polled.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace berth::http
