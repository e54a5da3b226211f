// SPDX-License-Identifier: Apache-2.0
// Metrics: what the controller counts, in Prometheus' text form (docs/metrics.md says which question each metric
// answers).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Any thread may call any member.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void SetLeading(bool is_leading);
  // This machine's clock minus the API server's. The metric is missing until the first call.
  void SetClockDifference(std::chrono::milliseconds difference);
  // A watch failed, and the controller begins it anew.
  void WatchFailed(std::string_view kind);
  // A pass ended after `took`, with this decision.
  void PassEnded(std::chrono::nanoseconds took, const Decision& decision);
  // An entry was freed; `why`: the reason, as in the log.
  void Freed(std::string_view why);
  void PutBack();
  // Agents wrote `count` entries again that the controller had freed.
  void FreedInUse(std::size_t count);
  // The controller wrote address counts of a Node.
  void NodeWritten();
  void WriteFailed(std::string_view code);
  // The extender has answered one request of kube-scheduler (extender/service.h).
  void ExtenderAnswered(std::string_view verb, std::string_view result, std::chrono::nanoseconds took);
  // Number of pods for which the extender has chosen nodes, and whose binding the controller has not seen yet.
  void SetExtenderAssumed(std::size_t pods);
  // Replaces the metrics of pools and nodes. Looks at each block, so call it less often than once a pass.
  void Look(const World& world);

  [[nodiscard]] std::string Text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace berth::reconciler
