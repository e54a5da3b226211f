// SPDX-License-Identifier: Apache-2.0
// Performer: carries out what was decided, one request for each action, and puts the API server's answers into the
// world.
#pragma once

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "reconciler/decision.h"
#include "reconciler/metrics.h"
#include "reconciler/world.h"

namespace berth::reconciler {

class Performer {
 public:
  // All arguments must outlive this.
  Performer(k8sclient::Api& api, k8sclient::Clock& clock, World& world, ControllerState& state, Metrics& metrics)
      : api_(api), clock_(clock), world_(world), state_(state), metrics_(metrics) {}

  // Logs what it did, but no failure. Errors: those of the request; kConflict, kNotFound: the object is no longer as
  // the world shows it.
  [[nodiscard]] Expected<void> Perform(const Action& action, const Now& now, const k8sclient::CallOptions& options);

  // Reports entries that were freed by writes with lost answers, once the world shows that these writes landed.
  void SettleDoubts(const Now& now, const k8sclient::CallOptions& options);

 private:
  struct Visitor;

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  World& world_;
  ControllerState& state_;
  Metrics& metrics_;
  SteadyTime events_again_{};  // no event is written before this time
};

}  // namespace berth::reconciler
