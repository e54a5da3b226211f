// SPDX-License-Identifier: Apache-2.0
// Workload: people and controllers that make pods with requests and leave it to the scheduler where they run.
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

  // One thread: so many pods, one after another. Of those that no node takes in time some are deleted, and some wait
  // on. Some run only on one of these nodes.
  void Churn(const std::string& name, int pods, const std::vector<std::string>& nodes);
  // So many pods at once that request one address each.
  void Burst(const std::string& name, int pods);
  // Deletes those that wait on.
  void EndWaiting();

 private:
  Cluster& cluster_;
  std::vector<Pod> waiting_;  // were left Pending
};

}  // namespace berth::sim
