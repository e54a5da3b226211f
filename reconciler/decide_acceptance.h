// SPDX-License-Identifier: Apache-2.0
// Acceptance: which pools a space takes up, and why not the others.
//
// Pools of one space that overlap must be cut by the same length, as blocks of two lengths could overlap without having
// the same name. The list of accepted pools is one field of one object, so that of two controllers that both believe to
// lead only one can add to it; a pool leaves it when the pool is going and no block of it exists.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crds/space.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Reason and message of a condition.
struct Reason {
  std::string reason;
  std::string message;
  friend bool operator==(const Reason&, const Reason&) = default;
};

// What is wrong with a pool, whatever else there is; nothing for a good one.
[[nodiscard]] std::optional<Reason> WhyInvalid(const SeenPool& pool);

struct Acceptance {
  // What the space's list should be. Adding and removing both rest on which blocks and pools exist, so it may be
  // written only if the world is relisted.
  std::vector<crds::AcceptedPool> accepted;
  // Pools that go into the list once they have their finalizer.
  std::vector<std::string> need_finalizer;
  // By name: why a pool is not taken up. Pools that are neither here nor in a list are being deleted.
  std::map<std::string, Reason> refused;
};

// `current` is the space's list as it is. Requires: every pool in `names` exists in the world, is readable and names
// this space.
[[nodiscard]] Acceptance DecideAcceptance(const World& world, const std::string& space,
                                          const std::vector<std::string>& names,
                                          const std::vector<crds::AcceptedPool>& current);

}  // namespace berth::reconciler
