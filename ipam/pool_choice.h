// SPDX-License-Identifier: Apache-2.0
// The pools from which an ADD may take its addresses: one plan per family, with the pools in the order of the
// configuration.
//
// Pure functions: they decide from a snapshot of pools and labels which pools and requests are refused, and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/label_selector.h"
#include "ipam/pool.h"

namespace berth::ipam {

// Succeeds if pods may get addresses of the pool now. Errors: kInvalid, with the reason and a remedy.
[[nodiscard]] Expected<void> CheckUsable(const Pool& pool);

// The names and labels that the selectors of pools are compared with. The caller may leave out labels that no selector
// needs.
struct Admission {
  std::string node;
  std::optional<Labels> node_labels;
  std::string pod_namespace;
  std::optional<Labels> namespace_labels;
};

// Succeeds if the pool's selectors match the node and the namespace. Errors: kInvalid.
[[nodiscard]] Expected<void> CheckAdmitted(const Pool& pool, const Admission& admission);

// Succeeds if a pod's annotation may name the pools in `by_annotation`. Errors: kInvalid: one of them does not have
// allowAnnotation.
[[nodiscard]] Expected<void> CheckAnnotated(const std::vector<PoolView>& pools,
                                            const std::vector<std::string>& by_annotation);

// The pools from which the address of one family may come, in order. The first pool with a free address gives it.
struct FamilyPlan {
  Family family;
  std::vector<PoolView> candidates;  // usable and admitted; never empty
  std::optional<Address> requested;  // if set, `candidates` are the pools that may give this address
  std::string skipped = {};          // for each pool that is not usable or not admitted: "; " and the reason

  [[nodiscard]] bool may_be_shared() const;
};

// One plan for each family of `pools`, in the order in which the families first appear. `pools` must have the order of
// the configuration.
// Errors: kInvalid: a family has no usable, admitted pool (an ADD gets addresses of all families or fails); two
// requested addresses have the same family; no pool has the family of a requested address; a requested address is
// outside every pool, is excluded, outside the ranges or an edge address, or its pool does not allow requests.
// kAddressTaken: a requested address is a gateway or withheld.
[[nodiscard]] Expected<std::vector<FamilyPlan>> PlanFamilies(const std::vector<PoolView>& pools,
                                                             const Admission& admission,
                                                             const std::vector<Address>& requested);

}  // namespace berth::ipam
