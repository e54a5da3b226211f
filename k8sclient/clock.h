// SPDX-License-Identifier: Apache-2.0
// Clock: time, waiting and chance for the loops of this folder, so that tests and simulations decide about them.
#pragma once

#include <chrono>
#include <stop_token>

namespace berth::k8sclient {

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  [[nodiscard]] virtual std::chrono::steady_clock::time_point Now() = 0;
  // Since the machine was started. It goes on while the machine is suspended, which Now does not (CLOCK_BOOTTIME): for
  // the age of what others may have changed meanwhile.
  [[nodiscard]] virtual std::chrono::nanoseconds SinceBoot() = 0;
  // The calendar's time, for timestamps that people read; compared only with what the outside world stamped. Times in
  // objects of the API server are that server's: see server_clock.h.
  [[nodiscard]] virtual std::chrono::system_clock::time_point WallNow() = 0;
  // Waits; false as soon as stop is requested.
  virtual bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) = 0;
  // Uniform in [0, 1).
  [[nodiscard]] virtual double Random() = 0;
};

// The real one. Any thread may call.
[[nodiscard]] Clock& RealClock();

}  // namespace berth::k8sclient
