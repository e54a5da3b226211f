// SPDX-License-Identifier: Apache-2.0
// FakeClock: a clock that moves only in Sleep and Advance, so that tests do not wait and a slow machine changes
// nothing. Random always returns 0. FakeClock begins at the real time: code that waits for one of its deadlines with
// functions of std waits for real.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <vector>

#include "k8sclient/clock.h"

namespace berth::k8sclient::testing {

class FakeClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() override { return began_ + Offset(); }
  std::chrono::nanoseconds SinceBoot() override { return kBootedBefore + Offset() + Suspended(); }
  std::chrono::system_clock::time_point WallNow() override { return wall_began_ + Offset() + Suspended(); }
  bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) override {
    if (stop.stop_requested()) return false;
    {
      const std::lock_guard lock(mutex_);
      slept_.push_back(duration);
    }
    Advance(duration);
    on_sleep(duration);
    return !stop.stop_requested();
  }
  double Random() override { return 0; }

  void Advance(std::chrono::milliseconds duration) { offset_ms_ += duration.count(); }
  // The machine is suspended for `duration`: SinceBoot and WallNow advance, and Now does not.
  void Suspend(std::chrono::milliseconds duration) { suspended_ms_ += duration.count(); }
  [[nodiscard]] std::vector<std::chrono::milliseconds> slept() const {
    const std::lock_guard lock(mutex_);
    return slept_;
  }

  // Called in each Sleep. Set before other threads use the clock.
  std::function<void(std::chrono::milliseconds)> on_sleep = [](std::chrono::milliseconds) {};

 private:
  [[nodiscard]] std::chrono::milliseconds Offset() const { return std::chrono::milliseconds(offset_ms_.load()); }

  [[nodiscard]] std::chrono::milliseconds Suspended() const { return std::chrono::milliseconds(suspended_ms_.load()); }

  static constexpr std::chrono::hours kBootedBefore{1};
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point wall_began_ = std::chrono::system_clock::now();
  std::atomic<std::int64_t> offset_ms_ = 0;
  std::atomic<std::int64_t> suspended_ms_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::chrono::milliseconds> slept_;
};

}  // namespace berth::k8sclient::testing
