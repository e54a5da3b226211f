// SPDX-License-Identifier: Apache-2.0
// Creates pods that request addresses.
#include "sim/workload.h"

#include <chrono>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

namespace berth::sim {

using namespace std::chrono_literals;

void Workload::Churn(const std::string& name, int pods, const std::vector<std::string>& nodes) {
  for (int number = 0; number < pods; ++number) {
    const auto units = static_cast<std::int64_t>(Below(8) == 0 ? 2 + Below(2) : 1);
    const std::string node = Below(4) == 0 ? nodes[Below(nodes.size())] : std::string();
    const Pod pod = cluster_.CreatePod(fmt::format("{}-{}", name, number), units, node);
    const Nanos end = Now() + std::chrono::milliseconds(Below(3) == 0 ? Below(15'000) : Below(1'000));
    while (cluster_.IsPending(pod) && Now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + Below(500)));
    if (!cluster_.IsPending(pod)) continue;
    if (Below(3) == 0) {
      cluster_.RemovePending(pod);
    } else {
      waiting_.push_back(pod);
    }
  }
}

void Workload::Burst(const std::string& name, int pods) {
  for (int number = 0; number < pods; ++number) {
    waiting_.push_back(cluster_.CreatePod(fmt::format("{}-{}", name, number), /*units=*/1, /*node=*/""));
  }
}

void Workload::EndWaiting() {
  for (const Pod& pod : std::exchange(waiting_, {})) cluster_.RemovePending(pod);
}

}  // namespace berth::sim
