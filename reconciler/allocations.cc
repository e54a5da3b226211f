// SPDX-License-Identifier: Apache-2.0
// Stores IPAllocations, and the keys of those that changed.
#include "reconciler/allocations.h"

#include <utility>

namespace berth::reconciler {

AllocationKey AllocationKeyOf(const std::string& name_space, const std::string& name) {
  return name_space + '/' + name;
}

void Allocations::Put(SeenAllocation allocation) {
  AllocationKey key = AllocationKeyOf(allocation.name_space, allocation.name);
  touched_.push_back(key);
  all_.insert_or_assign(std::move(key), std::move(allocation));
}

void Allocations::Remove(const AllocationKey& key) {
  if (all_.erase(key) != 0) touched_.push_back(key);
}

}  // namespace berth::reconciler
