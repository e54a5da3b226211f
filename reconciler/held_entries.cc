// SPDX-License-Identifier: Apache-2.0
// Comparing blocks with what they were.
#include "reconciler/held_entries.h"

#include <optional>
#include <variant>

#include "ipam/check.h"

namespace berth::reconciler {

namespace {

using Entries = std::map<ipam::BlockOffset, std::string>;

std::optional<ipam::HeldEntry> ParseHeld(const std::string& text) {
  auto entry = ipam::ParseEntry(text);
  if (auto* held = std::get_if<ipam::HeldEntry>(&entry)) return std::move(*held);
  return std::nullopt;
}

// Held entries of `from` that `than` has not, or has otherwise.
void Differences(const std::string& block, const Entries& from, const Entries& than,
                 std::vector<HeldEntries::Entry>& into) {
  for (const auto& [offset, text] : from) {
    const auto other = than.find(offset);
    if (other != than.end() && other->second == text) continue;
    if (auto held = ParseHeld(text)) into.push_back({.key = {block, offset}, .text = text, .held = *std::move(held)});
  }
}

}  // namespace

void HeldEntries::Update(const World& world) {
  came_.clear();
  went_.clear();
  auto known = blocks_.begin();
  for (const auto& [name, seen] : world.blocks()) {
    while (known != blocks_.end() && known->first < name) {
      UpdateBlock(known->first, known->second, nullptr);
      known = blocks_.erase(known);
    }
    const bool is_known = known != blocks_.end() && known->first == name;
    if (!is_known) known = blocks_.emplace_hint(known, name, nullptr);
    if (known->second != seen.block) {
      UpdateBlock(name, known->second, seen.block);
      known->second = seen.block;
    }
    ++known;
  }
  while (known != blocks_.end()) {
    UpdateBlock(known->first, known->second, nullptr);
    known = blocks_.erase(known);
  }
  count_ = count_ + came_.size() - went_.size();
}

void HeldEntries::UpdateBlock(const std::string& name, const ipam::BlockView& before, const ipam::BlockView& after) {
  static const Entries kNone;
  const Entries& old_entries = before == nullptr ? kNone : before->allocations;
  const Entries& new_entries = after == nullptr ? kNone : after->allocations;
  Differences(name, old_entries, new_entries, went_);
  Differences(name, new_entries, old_entries, came_);
}

HeldEntries::Entry HeldEntries::At(const EntryKey& key) const {
  const std::string& text = blocks_.at(key.first)->allocations.at(key.second);
  auto held = ParseHeld(text);
  BERTH_CHECK(held.has_value());
  return {.key = key, .text = text, .held = *std::move(held)};
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
