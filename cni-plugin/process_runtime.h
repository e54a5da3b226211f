// SPDX-License-Identifier: Apache-2.0
// ProcessRuntime: time and chance of one CNI call in a process of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

#include "ipam/block_store.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::cni_plugin {

class ProcessRuntime final : public ipam::Runtime {
 public:
  // `limit` from now on. What is left of it is kept for giving back: new writes of an ADD start in its first four
  // fifths only. `parent`: the process that waits for the answer; 0: whoever it is, the call goes on without it. clock
  // tells the time that entries record, and must outlive this.
  ProcessRuntime(std::chrono::milliseconds limit, int parent, k8sclient::Clock& clock);

  [[nodiscard]] k8sclient::CallOptions RequestOptions() const { return {.deadline = end_, .stop = {}}; }

  [[nodiscard]] std::int64_t UnixMillis() override;
  [[nodiscard]] ipam::Uint128 Random(ipam::Uint128 bound) override;
  [[nodiscard]] bool Wait(std::chrono::milliseconds duration) override;
  [[nodiscard]] Expected<void> MayGoOn() override;

 private:
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point last_start_;
  std::chrono::steady_clock::time_point end_;
  int parent_;
  k8sclient::Clock& clock_;
  std::mt19937_64 random_;
};

}  // namespace berth::cni_plugin
