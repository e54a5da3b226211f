// SPDX-License-Identifier: Apache-2.0
// Contender: something that gives a container an address and takes it back, as the bench measures it.
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace berth::bench {

class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  // How its requests are marked in the audit log; empty: it sends none.
  [[nodiscard]] virtual std::string user_agent() const = 0;
  // More at once make no sense for it.
  [[nodiscard]] virtual int callers_max() const = 0;

  // CPU time of what serves it on this node beside the process of the call, since some time.
  [[nodiscard]] virtual std::chrono::nanoseconds NodeCpu() const { return {}; }

  // Waits until what it has answered and left for later is done.
  virtual void AwaitWritten() const {}

  // Several threads at once, up to callers_max, each with containers of its own.
  [[nodiscard]] virtual Expected<void> Add(const std::string& container_id) = 0;
  [[nodiscard]] virtual Expected<void> Del(const std::string& container_id) = 0;
};

}  // namespace berth::bench
