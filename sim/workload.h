// SPDX-License-Identifier: Apache-2.0
// Workload: people and controllers that create pods which request addresses. The scheduler decides where they run.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/scheduler.h"

namespace berth::sim {

class Workload {
 public:
  // Must outlive this.
  explicit Workload(Cluster& cluster) : cluster_(cluster) {}

  // One thread: creates `pods` pods, one after another. If the scheduler places a pod too late, the thread deletes the
  // pod or lets it wait. Some pods may run only on one of `nodes`.
  void Churn(const std::string& name, int pods, const std::vector<std::string>& nodes);
  // Creates `pods` pods at once, which request one address each.
  void Burst(const std::string& name, int pods);
  // Deletes the pods that still wait.
  void EndWaiting();

 private:
  Cluster& cluster_;
  std::vector<Pod> waiting_;  // pods that were left Pending
};

}  // namespace berth::sim
