// SPDX-License-Identifier: Apache-2.0
// Performer: carries out the actions of a decision, and puts the API server's answers into the world.
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

  // If the answer to a write that frees entries was lost, and the world shows now that the API server stored the write,
  // logs, counts and announces the freed entries, and adds them to ControllerState::freed.
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
