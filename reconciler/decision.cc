// SPDX-License-Identifier: Apache-2.0
// Computes the back-off keys of actions, and the time of the next decision.
#include "reconciler/decision.h"

#include <algorithm>

#include "crds/names.h"

namespace berth::reconciler {

namespace {

struct KeyVisitor {
  ObjectKey operator()(const CreateSpace& a) const { return SpaceKey(a.space); }
  ObjectKey operator()(const DeleteSpace& a) const { return SpaceKey(a.space); }
  ObjectKey operator()(const SetFinalizers& a) const {
    return a.collection == crds::kSpacesPath ? SpaceKey(a.name) : PoolKey(a.name);
  }
  ObjectKey operator()(const SetSpaceStatus& a) const { return SpaceKey(a.after.meta.name); }
  ObjectKey operator()(const SetPoolStatus& a) const { return PoolKey(a.pool); }
  ObjectKey operator()(const ChangeBlock& a) const { return BlockKey(a.before->name); }
  ObjectKey operator()(const DeleteBlock& a) const { return BlockKey(a.block->name); }
  ObjectKey operator()(const FreeEntries& a) const { return BlockKey(a.before->name); }
  ObjectKey operator()(const ReportInUse& a) const { return "InUse/" + a.block->name; }
  // PutBack has a key of its own, so that it does not wait when FreeEntries of the same block fails.
  ObjectKey operator()(const PutBack& a) const { return BlockKey(a.before->name) + "/lost-entries"; }
  ObjectKey operator()(const CreateAllocation& a) const {
    return AllocationObjectKey(NamespacedName(a.allocation.meta.name_space, a.allocation.meta.name));
  }
  ObjectKey operator()(const DeleteAllocation& a) const {
    return AllocationObjectKey(NamespacedName(a.allocation.name_space, a.allocation.name));
  }
  ObjectKey operator()(const ReportOrphans& /*a*/) const { return "orphans"; }
  ObjectKey operator()(const ReportContested& /*a*/) const { return "contested"; }
  ObjectKey operator()(const CreateBlock& a) const { return BlockKey(a.block.name); }
  ObjectKey operator()(const ShowNumbers& a) const { return NodeKey(a.node); }
  ObjectKey operator()(const ListPods& a) const { return PodListKey(a.node); }
  ObjectKey operator()(const AskLeases& /*a*/) const { return "leases"; }
};

}  // namespace

ObjectKey KeyOf(const Action& action) { return std::visit(KeyVisitor(), action); }
ObjectKey PoolKey(const std::string& name) { return "IPPool/" + name; }
ObjectKey SpaceKey(const std::string& name) { return "IPSpace/" + name; }
ObjectKey BlockKey(const std::string& name) { return "IPBlock/" + name; }
ObjectKey NodeKey(const std::string& name) { return "Node/" + name; }
ObjectKey PodListKey(const std::string& node) { return NodeKey(node) + "/pods"; }
ObjectKey AllocationObjectKey(const AllocationKey& key) { return "IPAllocation/" + key; }

void Decision::WakeAt(std::int64_t unix_ms) { wake_unix_ms = std::min(wake_unix_ms.value_or(unix_ms), unix_ms); }

void Decision::WakeAt(std::chrono::steady_clock::time_point steady) {
  wake_steady = std::min(wake_steady.value_or(steady), steady);
}

}  // namespace berth::reconciler
