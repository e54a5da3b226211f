// SPDX-License-Identifier: Apache-2.0
// RetryPause: how long the agent waits before it sends again what the API server refuses or does not answer, or reads
// again a block that it could not parse. Such a cause may stay until a person removes it. Without a pause, thousands of
// agents would send these requests every second.
#pragma once

#include <algorithm>
#include <chrono>

namespace berth::agent_core {

using SteadyTime = std::chrono::steady_clock::time_point;

class RetryPause {
 public:
  static constexpr std::chrono::seconds kMin{1};
  static constexpr std::chrono::seconds kMax{30};

  // Begins a pause: of kMin at first, and twice as long after each retry that fails again, up to kMax. A failure
  // during a pause changes nothing, because it belongs to the attempt that began the pause, or to a new change.
  void AfterFailure(SteadyTime now) {
    if (IsOn(now)) return;
    const bool is_retry = now - until_ <= kMax;
    length_ = is_retry ? std::clamp(2 * length_, kMin, kMax) : kMin;
    until_ = now + length_;
  }
  [[nodiscard]] bool IsOn(SteadyTime now) const { return now < until_; }
  [[nodiscard]] SteadyTime end() const { return until_; }

 private:
  SteadyTime until_{};
  std::chrono::seconds length_{0};
};

}  // namespace berth::agent_core
