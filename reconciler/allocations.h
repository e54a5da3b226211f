// SPDX-License-Identifier: Apache-2.0
// Allocations: the IPAllocations that the watch has shown. The controller reads only their metadata: the name contains
// the attachment, and the spec follows from the blocks and cannot change.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ipam/address.h"
#include "ipam/entry.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

using AllocationKey = std::string;  // NamespacedName

struct SeenAllocation {
  std::string name_space;
  std::string name;
  std::string uid;
  ipam::Attachment attachment = {};  // empty: the name contains no attachment, so berth did not make the object
  bool is_deleting = false;
  // True if the labels contain no address of this family.
  bool lacks_ipv4 = false;
  bool lacks_ipv6 = false;

  [[nodiscard]] bool Lacks(ipam::Family family) const {
    return family == ipam::Family::kIPv4 ? lacks_ipv4 : lacks_ipv6;
  }
};

class Allocations {
 public:
  void Put(SeenAllocation allocation) {
    AllocationKey key = NamespacedName(allocation.name_space, allocation.name);
    touched_.push_back(key);
    all_.insert_or_assign(std::move(key), std::move(allocation));
  }
  void Remove(const AllocationKey& key) {
    if (all_.erase(key) != 0) touched_.push_back(key);
  }

  [[nodiscard]] const std::map<AllocationKey, SeenAllocation>& all() const { return all_; }

  // Keys that Put or Remove changed since the last ForgetTouched; a key may occur twice.
  [[nodiscard]] const std::vector<AllocationKey>& touched() const { return touched_; }
  void ForgetTouched() { touched_.clear(); }

 private:
  std::map<AllocationKey, SeenAllocation> all_;
  std::vector<AllocationKey> touched_;
};

}  // namespace berth::reconciler
