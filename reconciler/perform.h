// SPDX-License-Identifier: Apache-2.0
// Performer: does what was decided, one request for each action, and takes what the server answers into the world.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "k8sclient/api.h"
#include "reconciler/decision.h"
#include "reconciler/metrics.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// The path of one object of a collection (crds/names.h).
[[nodiscard]] std::string ObjectPath(std::string_view collection, const std::string& name);

class Performer {
 public:
  // All must outlive this.
  Performer(k8sclient::Api& api, World& world, Memory& memory, Metrics& metrics)
      : api_(api), world_(world), memory_(memory), metrics_(metrics) {}

  // Errors: those of the request; kConflict and kNotFound: the object is not any more what the world shows. What was
  // done is logged, a failure is not.
  [[nodiscard]] Expected<void> Perform(const Action& action, const Moment& now, const k8sclient::CallOptions& options);

  // Tells of what was freed by writes whose answers were lost, once the world shows that they have landed.
  void SettleDoubts(const Moment& now, const k8sclient::CallOptions& options);

 private:
  struct Visitor;

  k8sclient::Api& api_;
  World& world_;
  Memory& memory_;
  Metrics& metrics_;
  SteadyTime events_again_{};  // before that none is told
};

}  // namespace berth::reconciler
