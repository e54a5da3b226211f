// SPDX-License-Identifier: Apache-2.0
// FaultProxy: one thread per connection, because a plugin opens only one or two connections.
#include "e2e/fault_proxy.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "e2e/http_message.h"

namespace berth::e2e {
namespace {

constexpr int kBacklog = 512;

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Appends the next bytes to `text`. False: the peer has closed the connection.
bool Receive(int fd, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (count <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

bool IsWatch(std::string_view head) {
  const std::string_view start_line = head.substr(0, head.find('\r'));
  return start_line.find("?watch=") != std::string_view::npos || start_line.find("&watch=") != std::string_view::npos;
}

// Waits until the client closes the connection, or the proxy ends.
void AwaitEnd(int fd) {
  std::string ignored;
  while (Receive(fd, ignored)) ignored.clear();
}

}  // namespace

FaultProxy::FaultProxy(Upstream upstream)
    : authorization_(upstream.token.empty() ? "" : "Authorization: Bearer " + upstream.token + "\r\n"),
      server_(std::move(upstream)),
      listen_fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool listening = listen_fd_ >= 0 && ::bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                         ::listen(listen_fd_, kBacklog) == 0 &&
                         ::getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!listening) throw std::runtime_error("no port for the fault proxy");
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

FaultProxy::~FaultProxy() {
  std::vector<std::thread> serving;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ::shutdown(listen_fd_, SHUT_RDWR);
    for (const int fd : client_fds_) ::shutdown(fd, SHUT_RDWR);
  }
  changed_.notify_all();
  accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    serving.swap(serving_);
  }
  for (std::thread& thread : serving) thread.join();
  ::close(listen_fd_);
}

std::string FaultProxy::Url() const { return "http://127.0.0.1:" + std::to_string(port_); }

void FaultProxy::Reset(Policy policy) {
  const std::lock_guard lock(mutex_);
  policy_ = std::move(policy);
  seen_.clear();
  stalled_ = 0;
  ++round_;
}

std::vector<SeenRequest> FaultProxy::Seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

bool FaultProxy::AwaitHeld(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return !held_.empty() || paused_ > 0 || stalled_ > 0; });
}

std::vector<int> FaultProxy::Release() {
  std::vector<std::string> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  std::vector<int> statuses;
  for (const std::string& request : held) {
    const auto bytes = server_.Exchange(request);
    const auto answer = bytes ? ParseAnswer(*bytes) : std::nullopt;
    statuses.push_back(answer ? answer->status : 0);
  }
  return statuses;
}

void FaultProxy::Resume() {
  {
    const std::lock_guard lock(mutex_);
    ++resumes_;
  }
  changed_.notify_all();
}

void FaultProxy::Pause() {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = resumes_;
  ++paused_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return resumes_ != before || stopping_; });
  --paused_;
}

void FaultProxy::Drop() {
  const std::lock_guard lock(mutex_);
  held_.clear();
}

void FaultProxy::Accept() {
  while (true) {
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      ::close(fd);
      return;
    }
    client_fds_.push_back(fd);
    serving_.emplace_back([this, fd] { Serve(fd); });
  }
}

void FaultProxy::Serve(int fd) {
  std::string bytes;
  bool open = true;
  while (open) {
    std::size_t head_size = bytes.find(kHeadEnd);
    while (open && head_size == std::string::npos) {
      open = Receive(fd, bytes);
      head_size = bytes.find(kHeadEnd);
    }
    if (!open) break;
    const std::string head = bytes.substr(0, head_size + 2);
    const std::size_t size = head_size + kHeadEnd.size() + ContentLength(head);
    if (HeaderValue(head, "Expect")) open = SendAll(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    while (open && bytes.size() < size) open = Receive(fd, bytes);
    if (!open) break;
    std::string body = bytes.substr(head_size + kHeadEnd.size(), ContentLength(head));
    bytes.erase(0, size);
    open = Relay(fd, head, std::move(body));
  }
  const std::lock_guard lock(mutex_);
  std::erase(client_fds_, fd);
  ::close(fd);
}

SeenRequest FaultProxy::Note(std::string_view head, std::string body) {
  SeenRequest request;
  request.index = static_cast<int>(seen_.size());
  const std::size_t method_end = head.find(' ');
  request.method = head.substr(0, method_end);
  request.target = head.substr(method_end + 1, head.find(' ', method_end + 1) - method_end - 1);
  request.body = std::move(body);
  request.fault = policy_(request);
  seen_.push_back(request);
  return request;
}

void FaultProxy::NoteStatus(int index, std::uint64_t round, int status) {
  const std::lock_guard lock(mutex_);
  if (round == round_) seen_[static_cast<std::size_t>(index)].status = status;
}

bool FaultProxy::Relay(int fd, std::string_view head, std::string body) {
  const std::string bytes = AskToClose(head, authorization_) + body;
  if (IsWatch(head)) {
    server_.Stream(bytes, fd);
    return false;
  }
  std::uint64_t round = 0;
  SeenRequest request;
  {
    const std::lock_guard lock(mutex_);
    round = round_;
    request = Note(head, std::move(body));
    if (request.fault == Fault::kHold || request.fault == Fault::kLate) held_.push_back(bytes);
  }
  changed_.notify_all();
  if (request.fault == Fault::kCutBefore || request.fault == Fault::kLate) return false;
  if (request.fault == Fault::kHold) {
    AwaitEnd(fd);
    return false;
  }
  if (request.fault == Fault::kPause) Pause();
  const auto answer_bytes = server_.Exchange(bytes);
  const auto answer = answer_bytes ? ParseAnswer(*answer_bytes) : std::nullopt;
  if (!answer) return false;
  NoteStatus(request.index, round, answer->status);
  if (request.fault == Fault::kStall) {
    {
      const std::lock_guard lock(mutex_);
      ++stalled_;
    }
    changed_.notify_all();
    AwaitEnd(fd);
    return false;
  }
  return request.fault != Fault::kCutAfter && SendAll(fd, answer->message);
}

std::string ProxyKubeconfig(std::string_view url, std::string_view user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: proxy\n"
         "clusters: [{name: proxy, cluster: {server: \"" +
         std::string(url) +
         "\"}}]\n"
         "users: [{name: \"" +
         std::string(user) +
         "\", user: {}}]\n"
         "contexts: [{name: proxy, context: {cluster: proxy, user: \"" +
         std::string(user) + "\"}}]\n";
}

}  // namespace berth::e2e
