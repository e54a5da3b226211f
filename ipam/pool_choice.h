// SPDX-License-Identifier: Apache-2.0
// Which pools an ADD may take its addresses from: one plan per family, in the order the configuration names them.
//
// Pure: what is refused, and why, is decided here from a snapshot of pools and labels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/label_selector.h"
#include "ipam/pool.h"

namespace berth::ipam {

// Whether the pool hands out anything at all now. Errors: kInvalid, with the reason and the remedy.
[[nodiscard]] Expected<void> CheckUsable(const Pool& pool);

// What selectors are matched against. A part that no selector needs may be missing.
struct Admission {
  std::string node;
  std::optional<Labels> node_labels;
  std::string pod_namespace;
  std::optional<Labels> namespace_labels;
};

// Whether the pool's selectors admit node and namespace. Errors: kInvalid.
[[nodiscard]] Expected<void> CheckAdmitted(const Pool& pool, const Admission& admission);

// Whether pods may choose those of the pools that are named here. Errors: kInvalid: one says nothing of it.
[[nodiscard]] Expected<void> CheckAnnotated(const std::vector<PoolView>& pools,
                                            const std::vector<std::string>& by_annotation);

// The pools that one address of a family may come from, in order; the first with room wins.
struct FamilyPlan {
  Family family;
  std::vector<PoolView> candidates;  // usable and admitted; never empty
  std::optional<Address> requested;  // then `candidates` are those whose subnet contains it

  [[nodiscard]] bool may_be_shared() const;
};

// One plan per family of `pools`, in the order in which the families first appear. `pools` must be in the order of the
// configuration. Errors: kInvalid: a family has no usable, admitted pool (all families or nothing), two requested
// addresses of one family, one of a family that no pool has, one outside every pool, or a pool that allows no requests.
[[nodiscard]] Expected<std::vector<FamilyPlan>> PlanFamilies(const std::vector<PoolView>& pools,
                                                             const Admission& admission,
                                                             const std::vector<Address>& requested);

}  // namespace berth::ipam
