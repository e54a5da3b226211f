// SPDX-License-Identifier: Apache-2.0
// Judges each suspect, applies the brake, and adds one action for each block.
#include "reconciler/decide_orphans.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace berth::reconciler {

namespace {

// How soon the controller looks again at an entry that waits for a renewal of a Lease.
constexpr std::chrono::seconds kNextLook{1};
// How long an entry has to be suspect before the controller asks for the version of Leases. Most DELs come within this
// time after the end of the pod, and then no request is needed.
constexpr std::chrono::seconds kAskAfter{1};

std::chrono::seconds WaitOf(const Suspicion& suspicion) {
  switch (suspicion.cause) {
    case Cause::kVanished:
      return suspicion.grace + kAfterGrace;
    case Cause::kTerminal:
    case Cause::kReplaced:
      return std::max(kTerminalMin, suspicion.grace + kAfterGrace);
    default:
      return std::max(kAbsentMin, suspicion.grace + kAfterGrace);
  }
}

// The addresses of pods on these nodes that are not known to have ended, each with its node.
std::set<std::pair<std::string, ipam::Address>> AddressesInUse(const World& world, const std::set<std::string>& nodes) {
  std::set<std::pair<std::string, ipam::Address>> in_use;
  for (const auto& [key, pod] : world.pods.all()) {
    if (pod.is_terminal || pod.is_host_network || !nodes.contains(pod.node)) continue;
    for (const ipam::Address& address : pod.addresses) in_use.emplace(pod.node, address);
  }
  return in_use;
}

struct Orphan {
  const Suspect* suspect;
  bool node_is_gone;
};
using Orphans = std::map<std::string, std::vector<Orphan>>;  // by block

FreeEntries ToAction(const World& world, const std::string& block, const std::vector<Orphan>& orphans) {
  FreeEntries action{.before = world.blocks().at(block).block, .entries = {}};
  for (const auto& [suspect, node_is_gone] : orphans) {
    action.entries.push_back({.offset = suspect->offset,
                              .text = suspect->text,
                              .entry = suspect->entry,
                              .node = suspect->node,
                              .was_terminal = suspect->suspicion.cause == Cause::kTerminal,
                              .was_replaced = suspect->suspicion.cause == Cause::kReplaced,
                              .sandbox_unknown = suspect->suspicion.cause == Cause::kSandboxUnknown,
                              .node_is_gone = node_is_gone});
  }
  return action;
}

void TellReturned(const OrphanScope& scope, Decision& decision) {
  std::map<std::string, ReportInUse> reports;
  for (const EntryKey& key : scope.suspects.returned()) {
    const Suspect& suspect = scope.suspects.all().at(key);
    const ipam::BlockView& block = scope.world.blocks().at(suspect.block).block;
    if (block == nullptr) continue;
    ReportInUse& report = reports.try_emplace(suspect.block, ReportInUse{.block = block, .entries = {}}).first->second;
    report.entries.push_back(
        {.offset = suspect.offset, .text = suspect.text, .entry = suspect.entry, .node = suspect.node});
  }
  for (auto& [block, report] : reports) decision.actions.emplace_back(std::move(report));
}

// Adds AskLeases if a suspect needs the version of the Leases after which a renewal counts. One request serves all
// suspects.
void AskForLeases(const OrphanScope& scope, const Now& now, Decision& decision) {
  bool is_due = false;
  for (const auto& [key, suspect] : scope.suspects.all()) {
    if (suspect.renewed_at || suspect.suspicion.cause == Cause::kUnknown) continue;
    const SteadyTime due = suspect.suspicion.since + kAskAfter;
    is_due = is_due || due <= now.steady;
    if (now.steady < due) decision.WakeAt(due);
  }
  if (is_due) decision.actions.emplace_back(AskLeases());
}

// Rules on every suspect. Returns the orphans that may be freed.
Orphans JudgeAll(const OrphanScope& scope, const Now& now, Decision& decision) {
  Orphans orphans;
  OrphanFindings& findings = decision.orphans;
  for (const auto& [key, suspect] : scope.suspects.all()) {
    const Ruling ruling = Judge(suspect.suspicion, FactsOf(scope.world, scope.suspects, suspect.node), now.steady);
    if (ruling.due) decision.WakeAt(*ruling.due);
    // Entries of a node that is not Ready do not count for the brake: the controller frees none of them, and somebody
    // may have removed the pods of a dead node. But if the node was Ready since the suspicion began, the node's entries
    // count, because the controller may free them now.
    const bool is_at_stake = suspect.node_was_ready && !ruling.node_is_gone;
    if (is_at_stake && suspect.suspicion.cause == Cause::kAbsent) ++findings.unseen[suspect.pool_uid];
    const bool is_readable = scope.world.blocks().at(suspect.block).block != nullptr;
    if (ruling.may_free && is_readable) {
      orphans[suspect.block].push_back({.suspect = &suspect, .node_is_gone = ruling.node_is_gone});
    } else {
      ++findings.kept[is_readable ? std::string(ruling.why_kept) : "unreadable-block"];
    }
  }
  std::size_t unseen = 0;
  for (const auto& [pool, count] : findings.unseen) unseen += count;
  findings.is_braked = unseen >= kBrakeMin && unseen * kBrakePart > scope.held;
  return orphans;
}

// Removes from `orphans` each entry whose address a pod of the entry's node still has.
void KeepInUse(const World& world, Orphans& orphans, OrphanFindings& findings) {
  std::set<std::string> nodes;
  for (const auto& [block, of_block] : orphans) {
    for (const Orphan& one : of_block) nodes.insert(one.suspect->node);
  }
  if (nodes.empty()) return;
  const auto in_use = AddressesInUse(world, nodes);
  for (auto& [block, of_block] : orphans) {
    const ipam::Prefix& cidr = world.blocks().at(block).cidr;
    const auto erased = std::erase_if(of_block, [&](const Orphan& one) {
      return in_use.contains({one.suspect->node, cidr.At(one.suspect->offset)});
    });
    if (erased > 0) findings.kept["address-in-use"] += erased;
  }
}

}  // namespace

NodeFacts FactsOf(const World& world, const Suspects& suspects, const std::string& name) {
  NodeFacts facts{.gone_since = suspects.GoneSince(name)};
  if (const SeenNode* node = world.nodes.Find(name)) {
    facts.exists = true;
    facts.is_ready = node->is_ready;
    facts.is_out_of_service = node->is_out_of_service;
  }
  return facts;
}

bool IsGone(const NodeFacts& node, SteadyTime now) {
  if (node.is_out_of_service && !node.is_ready) return true;
  return node.gone_since && *node.gone_since + kNodeGoneMin <= now;
}

Ruling Judge(const Suspicion& suspicion, const NodeFacts& node, SteadyTime now) {
  if (IsGone(node, now)) return {.may_free = true, .node_is_gone = true};
  if (node.gone_since) return {.why_kept = "node-gone-lately", .due = *node.gone_since + kNodeGoneMin};
  if (suspicion.cause == Cause::kUnknown) return {.why_kept = "unknown-pod"};
  if (!node.exists) return {.why_kept = "unknown-node"};
  if (!node.is_ready) return {.why_kept = "node-not-ready"};
  if (suspicion.renewals < kRenewalsMin) return {.why_kept = "node-not-heard-of", .due = now + kNextLook};
  // The kubelet may have learned only at its first renewal that the pod is gone. The kubelet then begins to end the
  // pod's containers, so the wait begins at this renewal.
  const SteadyTime heard = suspicion.first_renewal.value_or(now);
  const SteadyTime due = heard + WaitOf(suspicion);
  if (now < due) return {.why_kept = "may-be-ending", .due = due};
  return {.may_free = true};
}

void DecideOrphans(const OrphanScope& scope, const Now& now, Decision& decision) {
  AskForLeases(scope, now, decision);
  Orphans orphans = JudgeAll(scope, now, decision);
  OrphanFindings& findings = decision.orphans;
  KeepInUse(scope.world, orphans, findings);
  TellReturned(scope, decision);
  ReportOrphans report;
  for (const auto& [block, of_block] : orphans) {
    if (of_block.empty()) continue;
    if (findings.is_braked) {
      findings.kept["too-many"] += of_block.size();
      continue;
    }
    if (scope.mode == Reclaim::kOn) {
      findings.due += of_block.size();
      decision.actions.emplace_back(ToAction(scope.world, block, of_block));
      continue;
    }
    findings.kept["report-only"] += of_block.size();
    for (const Orphan& one : of_block) report.entries.insert({block, one.suspect->text});
  }
  if (scope.mode == Reclaim::kReport && report.entries != scope.state.reported) {
    decision.actions.emplace_back(std::move(report));
  }
}

}  // namespace berth::reconciler
