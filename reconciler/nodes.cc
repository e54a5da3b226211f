// SPDX-License-Identifier: Apache-2.0
// Keeping nodes and counting renewals.
#include "reconciler/nodes.h"

#include <utility>

namespace berth::reconciler {

void Nodes::Put(SeenNode node) {
  std::string name = node.name;
  nodes_.insert_or_assign(std::move(name), std::move(node));
}

void Nodes::PutLease(SeenLease lease) {
  const auto [at, is_new] = renewals_.try_emplace(lease.node, Renewals{.last = lease.renewed, .count = 0});
  if (is_new || at->second.last == lease.renewed) return;
  at->second.last = std::move(lease.renewed);
  ++at->second.count;
}

const SeenNode* Nodes::Find(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::uint64_t Nodes::RenewalsOf(const std::string& node) const {
  const auto found = renewals_.find(node);
  return found == renewals_.end() ? 0 : found->second.count;
}

}  // namespace berth::reconciler
