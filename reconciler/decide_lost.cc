// SPDX-License-Identifier: Apache-2.0
// Compares the addresses that pods have with the entries of blocks.
#include "reconciler/decide_lost.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "reconciler/suspects.h"

namespace berth::reconciler {

namespace {

constexpr std::size_t kDigits = 16;

// Finds the blocks that contain an address. Blocks of one space do not overlap, blocks of different spaces may.
class BlocksByAddress {
 public:
  explicit BlocksByAddress(const World& world) {
    for (const auto& [name, seen] : world.blocks()) {
      if (seen.block == nullptr) continue;
      lengths_.insert({seen.cidr.family(), seen.cidr.length()});
      blocks_[seen.cidr].push_back(seen.block.get());
    }
  }
  [[nodiscard]] std::vector<const ipam::Block*> Around(const ipam::Address& address) const {
    std::vector<const ipam::Block*> found;
    for (const auto& [family, length] : lengths_) {
      if (family != address.family()) continue;
      const auto at = blocks_.find(ipam::Prefix::Around(address, length));
      if (at != blocks_.end()) found.insert(found.end(), at->second.begin(), at->second.end());
    }
    return found;
  }

 private:
  std::set<std::pair<ipam::Family, int>> lengths_;
  std::map<ipam::Prefix, std::vector<const ipam::Block*>> blocks_;
};

bool IsOf(const ipam::HeldEntry& entry, const SeenPod& pod) {
  return entry.pod_namespace == pod.name_space && entry.pod == pod.name &&
         (entry.uid.empty() || entry.uid == pod.identity());
}

ipam::BlockOffset OffsetIn(const ipam::Block& block, const ipam::Address& address) {
  return static_cast<ipam::BlockOffset>(block.cidr.OffsetOf(address));
}

bool HasNow(const SeenPod& pod, const ipam::Address& address) {
  return pod.HasOwnAddress() && !pod.HasOthersThan(address);
}

bool IsOwn(const SeenPod& pod, const ipam::Block& block) { return block.shared() || block.node == pod.node; }

// A Judged says what a block records about a pod's address. In a block of another node only kContested counts, because
// the pod cannot have lost an entry there.
struct Judged {
  AddressState state = AddressState::kRecorded;
  const ipam::Block* block = nullptr;
};
Judged JudgeAddress(const SeenPod& pod, const ipam::Address& address, const std::vector<const ipam::Block*>& around) {
  std::vector<Judged> own;
  std::vector<Judged> foreign;
  for (const ipam::Block* block : around) {
    const AddressState state = StateOf(pod, address, *block);
    if (state == AddressState::kRecorded) return {};
    (IsOwn(pod, *block) ? own : foreign).push_back({.state = state, .block = block});
  }
  // If blocks of several spaces contain the address, it is unknown from which of them the pod has the address.
  if (own.size() == 1) return own.front();
  if (own.empty() && foreign.size() == 1 && foreign.front().state == AddressState::kContested) return foreign.front();
  return {};
}

ContestedAddress ToContested(const SeenPod& pod, const ipam::Address& address, const ipam::Block& block) {
  const auto entry = ipam::ParseEntry(block.allocations.at(OffsetIn(block, address)));
  const auto& held = std::get<ipam::HeldEntry>(entry);
  const std::string who = NamespacedName(pod.name_space, pod.name);
  std::string recorded = NamespacedName(held.pod_namespace, held.pod);
  // A pod of a StatefulSet has the same name as its predecessor, so add the UID.
  if (recorded == who) recorded += " with UID " + held.uid;
  return {.block = block.name,
          .block_uid = block.uid,
          .text = address.ToString() + ": " + who + " on " + pod.node + " has the address, but the entry names " +
                  recorded + (block.shared() ? "" : " on " + block.node)};
}

// Whether any block of the world has an entry of the pod for the address.
bool IsRecorded(const World& world, const SeenPod& pod, const ipam::Address& address) {
  return std::ranges::any_of(world.blocks(), [&](const auto& item) {
    const ipam::BlockView& block = item.second.block;
    return block != nullptr && block->cidr.Contains(address) &&
           StateOf(pod, address, *block) == AddressState::kRecorded;
  });
}

}  // namespace

AddressState StateOf(const SeenPod& pod, const ipam::Address& address, const ipam::Block& block) {
  const ipam::BlockOffset offset = OffsetIn(block, address);
  const auto found = block.allocations.find(offset);
  if (found != block.allocations.end()) {
    const auto entry = ipam::ParseEntry(found->second);
    if (const auto* held = std::get_if<ipam::HeldEntry>(&entry)) {
      if (held->pod.empty() || held->pod_namespace.empty()) return AddressState::kLeftAlone;
      return IsOf(*held, pod) ? AddressState::kRecorded : AddressState::kContested;
    }
    // A reservation keeps the address from other pods only until the reservation ends. So the pod's entry replaces the
    // reservation's entry.
    if (std::holds_alternative<ipam::OpaqueEntry>(entry)) return AddressState::kLeftAlone;
  }
  const bool may_be_with_another = block.standby.contains(offset);
  return block.deleting || may_be_with_another ? AddressState::kLeftAlone : AddressState::kLost;
}

std::optional<ipam::HeldEntry> EntryOf(const SeenPod& pod, const ipam::Block& block, const Now& now) {
  if (!pod.config_hash.empty()) return std::nullopt;
  std::string digits;
  for (const char c : pod.identity()) {
    if (digits.size() < kDigits && std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  if (digits.size() < kDigits) return std::nullopt;
  ipam::HeldEntry entry;
  entry.pod_namespace = pod.name_space;
  entry.pod = pod.name;
  entry.uid = pod.identity();
  entry.attachment = std::string(kNoNetwork) + '-' + digits;
  entry.interface = "eth0";
  entry.since_ms = now.unix_ms;
  if (block.shared()) entry.node = pod.node;
  return entry;
}

bool LacksEntryOf(const World& world, const ipam::Block& block, const SeenPod& pod) {
  return pod.HasOwnAddress() && std::ranges::any_of(pod.addresses, [&](const ipam::Address& address) {
           return block.cidr.Contains(address) && !IsRecorded(world, pod, address);
         });
}

const std::vector<const SeenPod*>& PodAddresses::PodsOf(const std::string& node) {
  if (!pods_) {
    pods_.emplace();
    for (const auto& [key, pod] : world_.pods.all()) {
      if (!pod.HasOwnAddress()) continue;
      (*pods_)[""].push_back(&pod);
      (*pods_)[pod.node].push_back(&pod);
    }
  }
  return (*pods_)[node];
}

bool PodAddresses::AreLostIn(const ipam::Block& block) {
  return std::ranges::any_of(PodsOf(block.node), [&](const SeenPod* pod) { return LacksEntryOf(world_, block, *pod); });
}

bool PodAddresses::IsLost(const ipam::Block& block, const ipam::Address& address) {
  return std::ranges::any_of(PodsOf(block.node), [&](const SeenPod* pod) {
    return std::ranges::find(pod->addresses, address) != pod->addresses.end() && !IsRecorded(world_, *pod, address);
  });
}

void LostEntries::Decide(const World& world, const ControllerState& state, const Now& now, Decision& decision) {
  NoteWrites(world, now.steady);
  if (!compared_ || *compared_ + kComparePeriod <= now.steady) Compare(world, now.steady);
  if (!first_compared_) first_compared_ = now.steady;
  decision.WakeAt(compared_.value_or(now.steady) + kComparePeriod);
  std::map<std::string, PutBack> actions;
  ReportContested report;
  std::set<std::string> contested;
  std::map<std::string, std::vector<ContestedAddress>> by_pool;
  for (const auto& [key, finding] : findings_) {
    const auto& [pod_key, address] = key;
    const SeenPod* pod = world.pods.Find(pod_key);
    const auto seen = world.blocks().find(finding.block);
    if (pod == nullptr || !HasNow(*pod, address) || seen == world.blocks().end() || seen->second.block == nullptr)
      continue;
    const ipam::BlockView& block = seen->second.block;
    if (StateOf(*pod, address, *block) != finding.state) continue;
    const bool is_lost = finding.state == AddressState::kLost;
    if (is_lost && !IsOwn(*pod, *block)) continue;
    const SteadyTime due =
        is_lost ? std::max(finding.since, QuietSince(*block)) + kQuietMin : finding.since + kContestedMin;
    if (now.steady < due) {
      decision.WakeAt(due);
    } else if (!is_lost) {
      report.addresses.push_back(ToContested(*pod, address, *block));
      contested.insert(report.addresses.back().text);
      by_pool[block->pool_uid].push_back(report.addresses.back());
    } else if (auto entry = EntryOf(*pod, *block, now)) {
      PutBack& action = actions.try_emplace(block->name, PutBack{.before = block, .entries = {}}).first->second;
      action.entries.push_back({.address = address, .entry = *std::move(entry), .node = pod->node});
    }
  }
  for (auto& [name, action] : actions) decision.actions.emplace_back(std::move(action));
  if (*first_compared_ + kContestedMin <= now.steady) decision.contested = std::move(by_pool);
  if (contested != state.contested) decision.actions.emplace_back(std::move(report));
}

void LostEntries::NoteWrites(const World& world, SteadyTime now) {
  std::erase_if(blocks_, [&](const auto& item) { return !world.blocks().contains(item.first); });
  for (const auto& [name, seen] : world.blocks()) {
    if (seen.block == nullptr) continue;
    Seen& before = blocks_[name];
    // A new list makes another object for an unchanged block, so compare the versions, not the pointers.
    const bool is_same = before.block != nullptr && before.block->resource_version == seen.block->resource_version;
    if (is_same) continue;
    if (before.block == nullptr || !seen.is_own_write) before.since = now;
    before.block = seen.block;
  }
}

SteadyTime LostEntries::QuietSince(const ipam::Block& block) const {
  if (block.shared()) return {};
  SteadyTime quiet = blocks_.at(block.name).since;
  for (const auto& [name, seen] : blocks_) {
    if (seen.block->node == block.node) quiet = std::max(quiet, seen.since);
  }
  return quiet;
}

void LostEntries::Compare(const World& world, SteadyTime now) {
  compared_ = now;
  const BlocksByAddress blocks(world);
  Findings findings;
  for (const auto& [key, pod] : world.pods.all()) {
    if (!pod.HasOwnAddress()) continue;
    for (const ipam::Address& address : pod.addresses) {
      const Judged judged = JudgeAddress(pod, address, blocks.Around(address));
      if (judged.state != AddressState::kLost && judged.state != AddressState::kContested) continue;
      Finding finding{.state = judged.state, .block = judged.block->name, .since = now};
      const auto before = findings_.find({key, address});
      if (before != findings_.end() && before->second.state == finding.state && before->second.block == finding.block) {
        finding.since = before->second.since;
      }
      findings.emplace(std::pair(key, address), std::move(finding));
    }
  }
  findings_ = std::move(findings);
}

}  // namespace berth::reconciler
