// SPDX-License-Identifier: Apache-2.0
// Health: /healthz says that the process runs, /readyz whether it can do its duty.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ipam/error.h"

namespace berth::reconciler {

class HealthServer {
 public:
  // Listens on "host:port" ("[::1]:8080" for IPv6; port 0: any that is free) and serves in a thread of its own.
  // `why_not_ready` is called from there; empty: ready.
  // Errors: kInvalid (no such address), kIo (the port is taken).
  [[nodiscard]] static ipam::Expected<std::unique_ptr<HealthServer>> Start(const std::string& address,
                                                                           std::function<std::string()> why_not_ready);
  // Ends it.
  ~HealthServer();

  [[nodiscard]] int port() const { return port_; }

 private:
  struct State;
  explicit HealthServer(std::unique_ptr<State> state, int port);
  std::unique_ptr<State> state_;
  int port_;
};

}  // namespace berth::reconciler
