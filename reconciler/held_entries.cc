// SPDX-License-Identifier: Apache-2.0
// Compares blocks with their previous versions.
#include "reconciler/held_entries.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <utility>
#include <variant>

#include "base/check.h"

namespace berth::reconciler {

namespace {

using Entries = std::map<ipam::BlockOffset, std::string>;

std::optional<ipam::HeldEntry> ParseHeld(const std::string& text) {
  auto entry = ipam::ParseEntry(text);
  if (auto* held = std::get_if<ipam::HeldEntry>(&entry)) return std::move(*held);
  return std::nullopt;
}

// Adds the held entries of `from` that `than` lacks or has with another text.
void Differences(const ipam::BlockView& from, const ipam::BlockView& than, std::vector<HeldEntries::Place>& into) {
  static const Entries kNone;
  if (from == nullptr) return;
  const Entries& others = than == nullptr ? kNone : than->allocations;
  for (const auto& [offset, text] : from->allocations) {
    const auto other = others.find(offset);
    if (other != others.end() && other->second == text) continue;
    if (ParseHeld(text)) into.push_back({.block = from, .offset = offset});
  }
}

bool IsLastView(const ipam::BlockView& view, const SeenBlock& seen) {
  return view == seen.block || (seen.block == nullptr && view != nullptr && view->uid == seen.uid);
}

}  // namespace

std::string HolderOf(const ipam::HeldEntry& entry) {
  return entry.pod.empty() || entry.pod_namespace.empty() ? entry.uid : NamespacedName(entry.pod_namespace, entry.pod);
}

void HeldEntries::Update(const World& world) {
  came_.clear();
  went_.clear();
  auto known = blocks_.begin();
  for (const auto& [name, seen] : world.blocks()) {
    while (known != blocks_.end() && known->first < name) {
      UpdateBlock(known->second, nullptr);
      known = blocks_.erase(known);
    }
    const bool is_known = known != blocks_.end() && known->first == name;
    if (!is_known) known = blocks_.emplace_hint(known, name, nullptr);
    if (!IsLastView(known->second, seen)) {
      UpdateBlock(known->second, seen.block);
      known->second = seen.block;
    }
    ++known;
  }
  while (known != blocks_.end()) {
    UpdateBlock(known->second, nullptr);
    known = blocks_.erase(known);
  }
  const auto hash_of = [](const Entry& entry) { return std::hash<std::string>()(HolderOf(entry.held)); };
  for (const Place& place : went_) {
    const Entry entry = Read(place);
    const auto [first, last] = by_holder_.equal_range(hash_of(entry));
    by_holder_.erase(std::find_if(first, last, [&](const auto& item) { return item.second == entry.key; }));
  }
  for (const Place& place : came_) {
    const Entry entry = Read(place);
    by_holder_.emplace(hash_of(entry), entry.key);
  }
}

void HeldEntries::UpdateBlock(const ipam::BlockView& before, const ipam::BlockView& after) {
  Differences(before, after, went_);
  Differences(after, before, came_);
}

HeldEntries::Entry HeldEntries::At(const EntryKey& key) const {
  return Read({.block = blocks_.at(key.first), .offset = key.second});
}

bool HeldEntries::Has(const EntryKey& key, const std::string& text) const {
  const auto block = blocks_.find(key.first);
  if (block == blocks_.end() || block->second == nullptr) return false;
  const auto entry = block->second->allocations.find(key.second);
  return entry != block->second->allocations.end() && entry->second == text;
}

HeldEntries::Entry HeldEntries::Read(const Place& place) {
  const std::string& text = place.block->allocations.at(place.offset);
  auto held = ParseHeld(text);
  BERTH_CHECK(held.has_value());
  return {.key = {place.block->name, place.offset}, .text = text, .held = *std::move(held), .block = place.block};
}

std::vector<EntryKey> HeldEntries::Keys() const {
  const auto keys = std::views::values(by_holder_);
  return {keys.begin(), keys.end()};
}

std::vector<HeldEntries::Entry> HeldEntries::Of(const std::string& holder) const {
  std::vector<Entry> entries;
  const auto [first, last] = by_holder_.equal_range(std::hash<std::string>()(holder));
  for (auto at = first; at != last; ++at) {
    Entry entry = At(at->second);
    // Two holders may have the same hash.
    if (HolderOf(entry.held) == holder) entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &Entry::key);
  return entries;
}

}  // namespace berth::reconciler
