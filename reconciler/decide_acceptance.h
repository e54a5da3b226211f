// SPDX-License-Identifier: Apache-2.0
// Acceptance: which pools a space accepts, and why it refuses the others.
//
// Overlapping pools of one space must have blocks of the same length, because blocks of two lengths could overlap
// without having the same name. The list of accepted pools is a field of the IPSpace's status, and each patch names the
// resourceVersion for which it was decided. So if two controllers both act as the leader, the API server refuses the
// second patch. A pool leaves the list once it is deleted or being deleted and has no block.
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

// The reason why the pool's spec is invalid by itself, without regard to other objects; nothing: the spec is valid.
[[nodiscard]] std::optional<Reason> WhyInvalid(const SeenPool& pool);

struct Acceptance {
  // The list that the space should have. It depends on which blocks and pools exist, so the controller writes it only
  // right after Relist (relist.h) has compared the world with consistent lists.
  std::vector<crds::AcceptedPool> accepted;
  // Names of pools that join the list once they have their finalizer.
  std::vector<std::string> need_finalizer;
  // By name: why a pool is refused. A pool that is in none of these three is being deleted.
  std::map<std::string, Reason> refused;
};

// `current`: the space's present list. Requires: every pool in `names` exists in the world, is readable and names this
// space.
[[nodiscard]] Acceptance DecideAcceptance(const World& world, const std::string& space,
                                          const std::vector<std::string>& names,
                                          const std::vector<crds::AcceptedPool>& current);

}  // namespace berth::reconciler
