// SPDX-License-Identifier: Apache-2.0
// API servers that do not answer: one refuses connections, and one accepts connections and never answers.
#pragma once

#include <cstdint>
#include <string>

#include "e2e/conformance/conformance.h"

namespace berth::conformance {

// A port of 127.0.0.1 that is bound without a listener: the kernel refuses connections to the port, and no other
// program can bind it.
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

// A port with a listener that never accepts: the kernel completes TCP's handshake, and the client never gets a byte.
class SilentServer : public RefusingServer {
 public:
  SilentServer();
};

// Writes a kubeconfig for `url` with the node's credentials to `directory`, and returns its path.
[[nodiscard]] std::string WriteKubeconfig(const std::string& directory, const std::string& url);

[[nodiscard]] Call WithKubeconfig(const Call& call, const std::string& path);

}  // namespace berth::conformance
