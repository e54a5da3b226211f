// SPDX-License-Identifier: Apache-2.0
// API servers that are not there: one that refuses connections, one that accepts them and never says a word.
#pragma once

#include <cstdint>
#include <string>

#include "e2e/conformance/conformance.h"

namespace berth::conformance {

// A port of 127.0.0.1 that is bound but not listened on: connections to it are refused, and nobody else can get it.
class RefusingServer {
 public:
  RefusingServer();
  ~RefusingServer();
  RefusingServer(const RefusingServer&) = delete;
  RefusingServer& operator=(const RefusingServer&) = delete;
  [[nodiscard]] std::string Url() const { return "https://127.0.0.1:" + std::to_string(port_); }

 protected:
  int fd_ = -1;

 private:
  std::uint16_t port_ = 0;
};

// The same, listened on, but nobody accepts: the kernel completes the handshake, and no byte ever comes back.
class SilentServer : public RefusingServer {
 public:
  SilentServer();
};

// A kubeconfig for `url` with the node's own credentials, in `directory`; its path.
[[nodiscard]] std::string WriteKubeconfig(const std::string& directory, const std::string& url);

[[nodiscard]] Call WithKubeconfig(const Call& call, const std::string& path);

}  // namespace berth::conformance
