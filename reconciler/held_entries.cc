// SPDX-License-Identifier: Apache-2.0
// Compares blocks with their previous versions.
#include "reconciler/held_entries.h"

#include <optional>
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
  count_ = count_ + came_.size() - went_.size();
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
  std::vector<EntryKey> keys;
  for (const auto& [name, view] : blocks_) {
    if (view == nullptr) continue;
    for (const auto& [offset, text] : view->allocations) {
      if (ParseHeld(text)) keys.emplace_back(name, offset);
    }
  }
  return keys;
}

}  // namespace berth::reconciler
