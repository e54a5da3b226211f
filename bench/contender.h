// SPDX-License-Identifier: Apache-2.0
// Contender: a program that gives a container an address and takes it back, as the benchmark measures it.
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
  // The User-Agent of its requests in the audit log; empty: it sends none.
  [[nodiscard]] virtual std::string user_agent() const = 0;
  // The largest number of callers at once that makes sense.
  [[nodiscard]] virtual int callers_max() const = 0;

  // CPU time that the node's other processes for the contender (such as an agent) have used since a fixed moment. The
  // calls' own processes do not count.
  [[nodiscard]] virtual std::chrono::nanoseconds NodeCpu() const { return {}; }

  // Waits until the contender has written the changes of all calls that it has answered.
  virtual void AwaitWritten() const {}

  // Up to callers_max threads may call at once, each for containers of its own.
  [[nodiscard]] virtual Expected<void> Add(const std::string& container_id) = 0;
  [[nodiscard]] virtual Expected<void> Del(const std::string& container_id) = 0;
};

}  // namespace berth::bench
