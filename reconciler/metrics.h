// SPDX-License-Identifier: Apache-2.0
// Metrics: what the controller counts, in Prometheus' text form (docs/metrics.md says which question each answers).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void SetLeading(bool is_leading);
  // This machine's clock minus the API server's. Not shown before the first call.
  void SetClockDifference(std::chrono::milliseconds difference);
  // A watch failed, and begins anew.
  void WatchFailed(std::string_view kind);
  // A round has ended, in which so much was decided.
  void Round(std::chrono::nanoseconds took, const Decision& decision);
  // An entry was freed; `why` as the log says it.
  void Freed(std::string_view why);
  // An entry was put back.
  void PutBack();
  // The agents of their nodes wrote `count` entries again that had been freed.
  void FreedInUse(std::size_t count);
  // Numbers of a Node were written.
  void NodeWritten();
  void WriteFailed(std::string_view code);
  // The extender has answered one request of the scheduler (extender/service.h).
  void ExtenderAnswered(std::string_view verb, std::string_view result, std::chrono::nanoseconds took);
  // Pods that it answered, and that have not been seen bound yet.
  void SetExtenderAssumed(std::size_t pods);
  // Replaces what was said of pools and nodes. Looks at each block, so not for every round.
  void Look(const World& world);

  [[nodiscard]] std::string Text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace berth::reconciler
