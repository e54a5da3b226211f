// SPDX-License-Identifier: Apache-2.0
// How a history comes to rest: programs finish their work, the controller frees lost addresses, and a person frees the
// rest.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <variant>

#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "ipam/entry.h"
#include "ipam/prefix.h"
#include "reconciler/read_holders.h"
#include "reconciler/suspects.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): without memory there is no simulation
const std::string kBlocksAtRest(crds::kBlocksPath);
// The controller waits ten minutes for a pod that it did not see go, and also for the node's Lease and for a node that
// was cut off before (docs/controller.md).
constexpr Nanos kFreedMax = std::chrono::minutes(14);

// Entries cool for a minute, the block is empty for up to 75 s, and the controller looks at the block again within
// seconds.
constexpr Nanos kGivenBackMax = std::chrono::minutes(10);

constexpr const char* kOfThief = "the thief's ";

ipam::Address AddressAt(const json& block, const std::string& offset) {
  const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
  return cidr->At(static_cast<std::uint32_t>(std::stoul(offset)));
}

// The node on which the address is held.
std::string NodeOfEntry(const json& block, const std::string& text) {
  const auto entry = ipam::ParseEntry(text);
  const auto* const held = std::get_if<ipam::HeldEntry>(&entry);
  return held == nullptr || held->node.empty() ? block["spec"].value("node", "") : held->node;
}

}  // namespace

std::string World::Unrest() const {
  const auto restless = std::ranges::find_if(machines_, [](const auto& machine) { return !machine->node.IsAtRest(); });
  return restless == machines_.end() ? "" : (*restless)->node.Unrest();
}

void World::ComeToRest() {
  story_.Tell("calm");
  meanwhiles_left_ = 0;
  troubled_starts_left_ = 0;
  ChangeWeather(true);
  // An ADD that runs while the rules are checked would break them.
  scheduler_.Pause(true);
  if (has_scheduler_) AwaitScheduled();
  const Nanos end = Now() + 90s;
  const auto is_at_rest = [this] {
    return cluster_.HaveToldAgain() &&
           std::ranges::all_of(machines_, [](const auto& machine) { return machine->node.IsAtRest(); });
  };
  while (!is_at_rest()) {
    for (const auto& machine : machines_) machine->node.Supervise();
    if (Now() > end) return story_.Break("rest", Unrest());
    std::this_thread::sleep_for(50ms);
  }
  const std::set<std::string> kept = AwaitLost();
  auto blocks = store_.Objects(kBlocksAtRest);
  for (json& block : blocks) {
    if (thief_ != nullptr) block = Thief::WithoutIts(block);
    if (block.is_null()) continue;
    const json entries = block["allocations"];
    for (const auto& [offset, text] : entries.items()) {
      const auto& entry = text.get_ref<const std::string&>();
      if (IsKept(entry) || kept.contains(entry)) block["allocations"].erase(offset);
    }
  }
  std::erase_if(blocks, [](const json& block) { return block.is_null(); });
  for (const auto& checker : checkers_) checker->AtRest(blocks);
}

World::LostEntries World::LostAndLeft() const {
  LostEntries lost;
  for (const json& block : store_.Objects(kBlocksAtRest)) {
    for (const auto& [offset, entry] : block["allocations"].items()) {
      const std::string& text = entry.get_ref<const std::string&>();
      const std::string attachment(ipam::AttachmentOf(text));
      if (thief_ != nullptr && Thief::IsIts(block, text)) {
        if (IsLeftOfThief(block, text)) lost.left.insert(kOfThief + text);
        continue;
      }
      const bool was_put_back = attachment.starts_with(reconciler::kNoNetwork);
      if (attachment.empty()) continue;
      const auto may_hold = [&](const auto& machine) { return machine->kubelet.MayHold(attachment); };
      // The entry is in the backup, and its address was freed after the backup was taken.
      const bool is_of_backup =
          backups_.was_restored() && !was_put_back && IsPodGone(text) && std::ranges::none_of(machines_, may_hold);
      const bool is_lost = was_put_back ? IsPodGone(text) : HasLost(attachment) && !IsKept(text);
      if (!is_of_backup && !is_lost) continue;
      (IsInUseElsewhere(block, offset) ? lost.kept : lost.left).insert(text);
    }
  }
  return lost;
}

bool World::IsInUseElsewhere(const json& block, const std::string& offset) const {
  if (!has_spaces_) return false;
  const ipam::Address address = AddressAt(block, offset);
  const std::string node = NodeOfEntry(block, block["allocations"][offset]);
  std::set<std::string> others;  // names of pods with an entry at the address in another space
  for (const json& other : store_.Objects(kBlocksAtRest)) {
    if (SpaceOf(other) == SpaceOf(block)) continue;
    for (const auto& [at, text] : other["allocations"].items()) {
      const auto entry = ipam::ParseEntry(text.get_ref<const std::string&>());
      const auto* const held = std::get_if<ipam::HeldEntry>(&entry);
      if (held != nullptr && AddressAt(other, at) == address) others.insert(held->pod);
    }
  }
  return std::ranges::any_of(store_.Objects(std::string(reconciler::kPodsPath)), [&](const json& pod) {
    const json addresses = pod.value("/status/podIPs"_json_pointer, json::array());
    const auto is_it = [&](const json& one) { return one["ip"] == address.ToString(); };
    return others.contains(pod["metadata"]["name"]) && NodeOf(pod) == node && !HasEnded(pod) &&
           std::ranges::any_of(addresses, is_it);
  });
}

bool World::IsKept(const std::string& text) const {
  const ipam::Attachment attachment(ipam::AttachmentOf(text));
  return !replaced_.empty() && !attachment.empty() && !attachment.starts_with(reconciler::kNoNetwork) &&
         HasLost(attachment) && !IsPodGone(text);
}

bool World::HasLost(const ipam::Attachment& attachment) const {
  const auto has_lost = [&](const auto& machine) { return machine->kubelet.lost().contains(attachment); };
  return std::ranges::any_of(machines_, has_lost) || std::ranges::any_of(replaced_, has_lost);
}

bool World::IsPodGone(const std::string& text) const {
  const auto entry = ipam::ParseEntry(text);
  const auto pods = store_.Objects(std::string(reconciler::kPodsPath));
  const std::string& uid = std::get<ipam::HeldEntry>(entry).uid;
  return std::ranges::none_of(pods, [&](const json& pod) { return pod["metadata"]["uid"] == uid; });
}

bool World::IsLateByYears(const std::string& text) const {
  const auto entry = ipam::ParseEntry(text);
  const auto* const held = std::get_if<ipam::HeldEntry>(&entry);
  if (held == nullptr || !cluster_.EndsAfterYears(held->uid)) return false;
  return held->attachment.starts_with(reconciler::kNoNetwork) ? IsPodGone(text) : HasLost(held->attachment);
}

bool World::IsHeldOnAnyNode(const json& block, const std::string& offset) const {
  const std::string address = InSpace(AddressAt(block, offset).ToString(), SpaceOf(block));
  return std::ranges::any_of(machines_, [&](const auto& machine) {
    const auto holders = machine->kubelet.holders();
    return std::ranges::any_of(holders, [&](const auto& one) { return one.second.addresses.contains(address); });
  });
}

void World::ReleaseByHand() {
  const bool is_braked = pools_.IsBraked();
  for (const json& block : store_.Objects(kBlocksAtRest)) {
    for (const auto& [offset, text] : block["allocations"].items()) {
      const ipam::Attachment attachment(ipam::AttachmentOf(text.get_ref<const std::string&>()));
      const auto is_static = [&](const auto& machine) { return machine->kubelet.lost_static().contains(attachment); };
      const bool is_thiefs = thief_ != nullptr && Thief::IsIts(block, text.get_ref<const std::string&>());
      const bool is_late = IsLateByYears(text);
      const bool was_put_back = attachment.starts_with(reconciler::kNoNetwork);
      const bool is_of_gone_pod =
          was_put_back ? IsPodGone(text) && !IsHeldOnAnyNode(block, offset) : HasLost(attachment);
      const bool is_false = is_braked && (is_thiefs || is_of_gone_pod);
      if (attachment.empty() || !(std::ranges::any_of(machines_, is_static) || is_late || is_false)) continue;
      story_.Tell("gives back what " + attachment + " had");
      FreeByHand(block["metadata"]["name"], offset, attachment);
    }
  }
}

std::set<std::string> World::AwaitLost() {
  CheckBrake();
  std::set<std::string> kept;
  Nanos end = Now() + kFreedMax;
  LostEntries lost;
  ReleaseByHand();
  while (!(lost = LostAndLeft()).left.empty()) {
    if (std::ranges::any_of(lost.left, [&](const std::string& text) { return kept.contains(text); })) {
      end = Now() + kFreedMax;
    }
    kept = lost.kept;
    if (Now() > end) {
      const std::string& left = *lost.left.begin();
      const char* const rule = left.starts_with(kOfThief) ? "stolen" : "dead-freed";
      story_.Break(rule, "the address of a pod that is gone is still held: " + left);
      break;
    }
    std::this_thread::sleep_for(5s);
    ReleaseByHand();
  }
  return lost.kept;
}

void World::AwaitDrained() {
  const Nanos end = Now() + 3min + pools_.cooldown();
  while (pools_.IsDraining()) {
    if (Now() > end) return story_.Break("drained", "a deleted pool is still there, and nothing is held in it");
    std::this_thread::sleep_for(1s);
  }
}

void World::AwaitGivenBack() {
  if (controllers_.count() == 0) return;
  const Nanos end = Now() + kGivenBackMax;
  // A block that names a live pod stays: a thief may have written the entry (docs/hardening.md).
  const auto lives = [this](const json& entry) { return NamesLivePod(entry.get_ref<const std::string&>()); };
  const auto is_going = [&](const json& block) {
    const bool has_node = !cluster_.IsGone(block["spec"].value("node", ""));
    const bool has_to_go = block["metadata"].contains("deletionTimestamp") || !has_node;
    if (!has_to_go || std::ranges::any_of(block["allocations"], lives)) return false;
    const auto entries = block["allocations"].items();
    return std::none_of(
        entries.begin(), entries.end(), [&](const auto& item) { return IsInUseElsewhere(block, item.key()); });
  };
  while (std::ranges::any_of(store_.Objects(kBlocksAtRest), is_going)) {
    if (Now() > end) return story_.Break("gone", "a block that was deleted, or whose Node is gone, is still there");
    std::this_thread::sleep_for(1s);
  }
}

}  // namespace berth::sim
