// SPDX-License-Identifier: Apache-2.0
// Chooses pools: usable, admitted, grouped by family, and matched with requested addresses.
#include "ipam/pool_choice.h"

#include <algorithm>

namespace berth::ipam {

namespace {

std::string Quoted(const Pool& pool) { return "pool " + pool.name; }

// Removes from the plan the pools that cannot give the requested address. Errors: as in PlanFamilies.
Expected<void> ConfineToRequested(FamilyPlan& plan, Address requested) {
  if (plan.requested) {
    return Fail(
        ErrorCode::kInvalid,
        "two addresses of one family are requested: " + plan.requested->ToString() + " and " + requested.ToString(),
        "request at most one " + std::string(ToString(plan.family)) + " address");
  }
  plan.requested = requested;
  const PoolView first = plan.candidates.front();
  std::erase_if(plan.candidates, [requested](const PoolView& pool) { return !pool->subnet.Contains(requested); });
  if (plan.candidates.empty()) return std::unexpected(WhyNotAssignable(*first, requested));
  const std::string refusing = plan.candidates.front()->name;
  std::erase_if(plan.candidates, [](const PoolView& pool) { return !pool->allow_requests; });
  if (plan.candidates.empty()) {
    return Fail(ErrorCode::kInvalid,
                "requested address " + requested.ToString() + ": pool " + refusing + " allows no requests",
                "set spec.allowRequests of the pool to true, or request no address");
  }
  // If several pools contain the address, keep those that may give it. If none may, the first one gives the reason.
  const auto gives = [requested](const PoolView& pool) {
    return AssignableIn(*pool, Prefix::Around(requested, AddressBits(requested.family()))).Contains(requested);
  };
  const auto giver = std::ranges::find_if(plan.candidates, gives);
  if (giver == plan.candidates.end()) return std::unexpected(WhyNotAssignable(*plan.candidates.front(), requested));
  std::erase_if(plan.candidates, [&gives](const PoolView& pool) { return !gives(pool); });
  return {};
}

}  // namespace

Expected<void> CheckUsable(const Pool& pool) {
  if (pool.deleting) {
    return Fail(ErrorCode::kInvalid, Quoted(pool) + " is being deleted", "use another pool, or create this pool again");
  }
  if (pool.disabled) {
    return Fail(ErrorCode::kInvalid, Quoted(pool) + " is disabled", "set spec.disabled of the IPPool to false");
  }
  if (!pool.ready) {
    std::string why = pool.not_ready_reason.empty() ? "the controller has not accepted it yet" : pool.not_ready_reason;
    if (!pool.not_ready_message.empty()) why += ": " + pool.not_ready_message;
    return Fail(ErrorCode::kInvalid,
                Quoted(pool) + " is not Ready: " + why,
                "see: kubectl describe ippool " + pool.name + "; is berth-controller running?");
  }
  return {};
}

Expected<void> CheckAdmitted(const Pool& pool, const Admission& admission) {
  if (pool.node_selector && !pool.node_selector->Matches(admission.node_labels.value_or(Labels{}))) {
    return Fail(ErrorCode::kInvalid,
                Quoted(pool) + " is not for node " + admission.node + ": spec.nodeSelector " +
                    pool.node_selector->ToString() + " does not match the node's labels",
                "label the node, or name a pool that admits the node");
  }
  if (pool.namespace_selector && !pool.namespace_selector->Matches(admission.namespace_labels.value_or(Labels{}))) {
    const std::string who =
        admission.pod_namespace.empty() ? "a container without a namespace" : "namespace " + admission.pod_namespace;
    return Fail(ErrorCode::kInvalid,
                Quoted(pool) + " is not for " + who + ": spec.namespaceSelector " +
                    pool.namespace_selector->ToString() + " does not match its labels",
                "label the namespace, or name a pool that admits the namespace");
  }
  return {};
}

Expected<void> CheckAnnotated(const std::vector<PoolView>& pools, const std::vector<std::string>& by_annotation) {
  for (const PoolView& pool : pools) {
    const bool is_configured = std::ranges::find(by_annotation, pool->name) == by_annotation.end();
    if (is_configured || pool->allow_annotation) continue;
    return Fail(ErrorCode::kInvalid,
                "the pod's annotation names " + Quoted(*pool) + ", which is not in ipam.pools of the network",
                "add the pool to ipam.pools, set spec.allowAnnotation of the IPPool, or correct the annotation");
  }
  return {};
}

bool FamilyPlan::may_be_shared() const {
  return std::ranges::any_of(candidates, [](const PoolView& pool) { return pool->affinity == Affinity::kShared; });
}

Expected<std::vector<FamilyPlan>> PlanFamilies(const std::vector<PoolView>& pools, const Admission& admission,
                                               const std::vector<Address>& requested) {
  std::vector<FamilyPlan> plans;
  std::vector<Expected<void>> refusals;  // one for each plan: why the first pool of the family was refused
  for (const PoolView& pool : pools) {
    auto plan = std::ranges::find(plans, pool->family(), &FamilyPlan::family);
    if (plan == plans.end()) {
      plans.push_back({.family = pool->family(), .candidates = {}, .requested = {}});
      refusals.emplace_back();
      plan = plans.end() - 1;
    }
    auto fine = CheckUsable(*pool);
    if (fine) fine = CheckAdmitted(*pool, admission);
    if (fine) {
      plan->candidates.push_back(pool);
      continue;
    }
    auto& refusal = refusals[static_cast<std::size_t>(plan - plans.begin())];
    if (refusal) refusal = fine;
    plan->skipped += "; " + fine.error().message;
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].candidates.empty()) return std::unexpected(refusals[i].error());
  }
  for (const Address address : requested) {
    const auto plan = std::ranges::find(plans, address.family(), &FamilyPlan::family);
    if (plan == plans.end()) {
      return Fail(ErrorCode::kInvalid,
                  "requested address " + address.ToString() + " is " + std::string(ToString(address.family())) +
                      ", but no configured pool has this family",
                  "name a pool of that family in ipam.pools");
    }
    if (auto confined = ConfineToRequested(*plan, address); !confined) return std::unexpected(confined.error());
  }
  return plans;
}

}  // namespace berth::ipam
