// SPDX-License-Identifier: Apache-2.0
// Keeping nodes and their last renewals.
#include "reconciler/nodes.h"

#include <utility>

namespace berth::reconciler {

void Nodes::Put(SeenNode node) {
  std::string name = node.name;
  nodes_.insert_or_assign(std::move(name), std::move(node));
}

void Nodes::PutLease(SeenLease lease) {
  Renewal& last = renewals_[lease.node];
  if (last.time != lease.renewed) last = {.time = std::move(lease.renewed), .version = lease.version};
}

const SeenNode* Nodes::Find(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::uint64_t Nodes::RenewedAt(const std::string& node) const {
  const auto found = renewals_.find(node);
  return found == renewals_.end() ? 0 : found->second.version;
}

}  // namespace berth::reconciler
