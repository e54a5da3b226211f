// SPDX-License-Identifier: Apache-2.0
// Clock: time, sleep and random numbers. Tests and simulations replace all three.
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
  // Time since the machine was started (CLOCK_BOOTTIME). Unlike Now, SinceBoot also counts while the machine is
  // suspended. So SinceBoot measures the age of data that other machines may have changed meanwhile.
  [[nodiscard]] virtual std::chrono::nanoseconds SinceBoot() = 0;
  // The wall clock, for timestamps that people read, and for comparison with timestamps from outside the program (such
  // as the expiry of a token). Times in API objects come from the API server's clock: see server_clock.h.
  [[nodiscard]] virtual std::chrono::system_clock::time_point WallNow() = 0;
  // Sleeps for `duration`. If stop is requested, returns false at once.
  virtual bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) = 0;
  // Uniform in [0, 1).
  [[nodiscard]] virtual double Random() = 0;
};

// The machine's clocks. Any thread may call.
[[nodiscard]] Clock& RealClock();

}  // namespace berth::k8sclient
