// SPDX-License-Identifier: Apache-2.0
// CallRuntime: clock, random numbers and time limit of one call in the agent.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <stop_token>

#include "agent/own_blocks.h"
#include "ipam/block_store.h"
#include "k8sclient/clock.h"

namespace berth::agent {

// Time limit of one step of the agent's work besides calls.
inline constexpr std::chrono::seconds kStepMax{20};

class CallRuntime final : public ipam::Runtime {
 public:
  // An ADD starts new writes only in the first four fifths of its time; the rest is for giving addresses back.
  CallRuntime(k8sclient::Clock& clock, SteadyTime begin, std::chrono::milliseconds limit, const OwnBlocks& own)
      : clock_(clock), last_start_(begin + limit * 4 / 5), end_(begin + limit), own_(own) {}

  [[nodiscard]] SteadyTime end() const { return end_; }

  [[nodiscard]] std::int64_t UnixMillis() override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow().time_since_epoch()).count();
  }

  [[nodiscard]] ipam::Uint128 Random(ipam::Uint128 bound) override {
    thread_local std::mt19937_64 random{std::random_device{}()};
    return ((ipam::Uint128{random()} << 64U) | random()) % bound;
  }

  [[nodiscard]] bool Wait(std::chrono::milliseconds duration) override {
    if (clock_.Now() + duration > last_start_ || own_.stopped()) return false;
    return clock_.Sleep(duration, {});
  }

  [[nodiscard]] Expected<void> MayGoOn() override {
    if (own_.stopped()) {
      return Fail(
          ErrorCode::kUnavailable, "the node's berth-agent is shutting down", "the runtime tries the call again");
    }
    if (clock_.Now() < last_start_) return {};
    return Fail(ErrorCode::kTimeout,
                "the time limit ipam.timeoutSeconds has passed",
                "the runtime tries the call again; is the API server slow, or do many programs write the same block?");
  }

 private:
  k8sclient::Clock& clock_;
  SteadyTime last_start_;
  SteadyTime end_;
  const OwnBlocks& own_;
};

}  // namespace berth::agent
