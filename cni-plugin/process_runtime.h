// SPDX-License-Identifier: Apache-2.0
// ProcessRuntime: time and random numbers for one CNI call in its own process.
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
  // `limit`: time limit of the call, from now. An ADD begins new writes only in the first four fifths of this time; the
  // last fifth is for freeing addresses. `parent`: the process that waits for the answer; 0: the call goes on even if
  // its caller dies. `clock`: the clock of the times in entries; must outlive this object.
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
