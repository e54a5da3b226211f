// SPDX-License-Identifier: Apache-2.0
// For tests only: an agent on a UNIX socket that reacts to each connection as the test says, and records the requests.
#pragma once

#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/descriptor.h"

namespace berth::cni_plugin {

// A folder that the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = "/tmp/berth-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// A listening socket with room for at most `backlog` + 1 waiting connections.
inline Descriptor Listen(const std::string& path, int backlog = 64) {
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (bind(listener.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.descriptor(), backlog) != 0) {
    throw std::runtime_error("listen on " + path);
  }
  return listener;
}

// The agent's reaction to one connection.
struct Reaction {
  bool reads = true;   // first reads the whole request
  std::string bytes;   // then sends these bytes
  bool holds = false;  // keeps the connection open until Stop, instead of closing it
};

inline Reaction Answers(int status, const std::string& body, const std::string& fields = "") {
  return {.reads = true,
          .bytes = "HTTP/1.1 " + std::to_string(status) + " Whatever\r\nContent-Type: application/json\r\n" + fields +
                   "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
          .holds = false};
}
inline Reaction Sends(std::string bytes) { return {.reads = true, .bytes = std::move(bytes), .holds = false}; }
inline Reaction Closes() { return Sends(""); }
inline Reaction ClosesUnread() { return {.reads = false, .bytes = "", .holds = false}; }
inline Reaction NeverAnswers() { return {.reads = true, .bytes = "", .holds = true}; }

class ScriptedAgent {
 public:
  // One reaction per connection. Later connections are read and closed.
  ScriptedAgent(const std::string& path, std::vector<Reaction> script)
      : ScriptedAgent(Listen(path), std::move(script)) {}
  ScriptedAgent(Descriptor listener, std::vector<Reaction> script)
      : script_(std::move(script)),
        listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        thread_([this] { Serve(); }) {}
  ~ScriptedAgent() { Stop(); }

  // The bodies of all requests that were read completely so far.
  [[nodiscard]] std::vector<nlohmann::json> Requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // Handles the connections that wait, stops, and returns the bodies of all requests.
  std::vector<nlohmann::json> Stop() {
    if (thread_.joinable()) {
      eventfd_write(stop_.descriptor(), 1);
      thread_.join();
      held_.clear();
    }
    return Requests();
  }

 private:
  void Serve() {
    while (true) {
      std::array<pollfd, 2> waited = {{{listener_.descriptor(), POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}}};
      poll(waited.data(), waited.size(), -1);
      for (Descriptor connection = Accept(); connection.is_open(); connection = Accept()) React(std::move(connection));
      if (waited[1].revents != 0) return;
    }
  }

  Descriptor Accept() { return Descriptor(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC)); }

  void React(Descriptor connection) {
    const Reaction reaction = next_ < script_.size() ? script_[next_] : Closes();
    ++next_;
    if (reaction.reads) ReadRequest(connection.descriptor());
    std::string_view bytes = reaction.bytes;
    while (!bytes.empty()) {
      const ssize_t sent = send(connection.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    if (reaction.holds) held_.push_back(std::move(connection));
  }

  void ReadRequest(int connection) {
    constexpr std::string_view kLength = "Content-Length: ";
    std::string text;
    while (true) {
      std::array<char, 65536> chunk{};
      const ssize_t count = recv(connection, chunk.data(), chunk.size(), 0);
      if (count <= 0) return;
      text.append(chunk.data(), static_cast<std::size_t>(count));
      const std::size_t head = text.find("\r\n\r\n");
      const std::size_t length = text.find(kLength);
      if (head == std::string::npos || length > head) continue;
      const std::string body = text.substr(head + 4);
      if (body.size() < std::stoul(text.substr(length + kLength.size()))) continue;
      const std::lock_guard lock(mutex_);
      requests_.push_back(nlohmann::json::parse(body));
      return;
    }
  }

  std::vector<Reaction> script_;
  std::size_t next_ = 0;
  Descriptor listener_;
  Descriptor stop_;
  std::vector<Descriptor> held_;
  std::mutex mutex_;
  std::vector<nlohmann::json> requests_;  // guarded by mutex_
  std::thread thread_;                    // last: the thread uses all other members
};

}  // namespace berth::cni_plugin
