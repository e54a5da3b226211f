// SPDX-License-Identifier: Apache-2.0
// Stores Nodes, and the last renewals of their Leases.
#include "reconciler/nodes.h"

#include <utility>

namespace berth::reconciler {

void Nodes::Put(SeenNode node) {
  std::string name = node.name;
  nodes_.insert_or_assign(std::move(name), std::move(node));
}

void Nodes::PutWritten(SeenNode node) {
  const auto shown = shown_.find(node.name);
  if (shown != shown_.end() && shown->second.uid == node.uid) {
    for (const auto& [resource, number] : node.numbers) {
      shown->second.present.insert(resource);
      shown->second.absent_since.erase(resource);
    }
  }
  Put(std::move(node));
}

void Nodes::PutShown(SeenNode node, SteadyTime now) {
  Shown& shown = shown_[node.name];
  if (shown.uid != node.uid) {
    // Somebody deleted the Node and created it again. The scheduler may not know this yet, and may still use the counts
    // of the previous Node.
    for (const std::string& resource : shown.present) shown.absent_since[resource] = now;
    if (shown.uid.empty()) shown.first_seen = now;
    shown.present.clear();
    shown.uid = node.uid;
  }
  for (const std::string& resource : shown.present) {
    if (!node.numbers.contains(resource)) shown.absent_since[resource] = now;
  }
  shown.present.clear();
  for (const auto& [resource, number] : node.numbers) {
    shown.present.insert(resource);
    shown.absent_since.erase(resource);
  }
  Put(std::move(node));
}

void Nodes::Remove(const std::string& name) {
  nodes_.erase(name);
  shown_.erase(name);
}

std::optional<SteadyTime> Nodes::AbsentSince(const std::string& node, const std::string& resource) const {
  const auto shown = shown_.find(node);
  if (shown == shown_.end() || shown->second.present.contains(resource)) return std::nullopt;
  const auto since = shown->second.absent_since.find(resource);
  return since == shown->second.absent_since.end() ? shown->second.first_seen : since->second;
}

bool Nodes::WasShown(const std::string& node, const std::string& resource) const {
  const auto shown = shown_.find(node);
  return shown != shown_.end() &&
         (shown->second.present.contains(resource) || shown->second.absent_since.contains(resource));
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
