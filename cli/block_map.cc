// SPDX-License-Identifier: Apache-2.0
// Draws the map with characters and colours.
#include "cli/block_map.h"

#include <algorithm>
#include <array>
#include <vector>

namespace berth::cli {

namespace {

constexpr ipam::BlockOffset kLine = 32;
constexpr ipam::BlockOffset kGroup = 8;

std::string Painted(const StateMark& mark, Colours colours) {
  if (colours == Colours::kOff) return {mark.character};
  return std::string("\x1b[") + mark.colour + "m" + mark.character + "\x1b[0m";
}

bool IsOrphan(const Inventory& inventory, const ipam::HeldEntry& held) {
  if (inventory.pods.empty() || held.pod.empty()) return false;
  const Pod* pod = inventory.FindPod(held.pod_namespace, held.pod);
  return pod == nullptr ? held.uid.contains('-') : !IsOf(held, *pod);
}

AddressState StateOf(const Inventory& inventory, const ipam::Block& block, const ipam::IntervalSet& assignable,
                     ipam::BlockOffset offset) {
  const auto found = block.allocations.find(offset);
  if (found == block.allocations.end()) {
    if (block.standby.contains(offset)) return AddressState::kStandby;
    return assignable.Contains(block.cidr.At(offset)) ? AddressState::kFree : AddressState::kNotAssignable;
  }
  const ipam::Entry entry = ipam::ParseEntry(found->second);
  if (std::holds_alternative<ipam::CoolingEntry>(entry)) return AddressState::kCooling;
  if (std::holds_alternative<ipam::ReservedEntry>(entry)) return AddressState::kReserved;
  const auto* held = std::get_if<ipam::HeldEntry>(&entry);
  return held != nullptr && IsOrphan(inventory, *held) ? AddressState::kOrphan : AddressState::kHeld;
}

}  // namespace

std::vector<AddressState> StatesOf(const Inventory& inventory, const ipam::Block& block, const ipam::Pool* pool) {
  const ipam::IntervalSet assignable = pool == nullptr ? ipam::IntervalSet() : ipam::AssignableIn(*pool, block.cidr);
  std::vector<AddressState> states;
  for (ipam::BlockOffset offset = 0; offset < block.size(); ++offset) {
    states.push_back(StateOf(inventory, block, assignable, offset));
  }
  return states;
}

std::string MapOf(const Inventory& inventory, const ipam::Block& block, const ipam::Pool* pool, Colours colours) {
  const std::vector<AddressState> states = StatesOf(inventory, block, pool);
  std::string text = block.name + "  pool " + block.pool + "  " + (block.shared() ? "Shared" : "node " + block.node) +
                     "  entries " + std::to_string(block.used()) + "  free " + std::to_string(block.free) + "\n";
  const std::size_t width = block.cidr.Last().ToString().size();
  for (ipam::BlockOffset offset = 0; offset < block.size(); ++offset) {
    if (offset % kLine == 0) {
      const std::string first = block.cidr.At(offset).ToString();
      text += (offset == 0 ? "  " : "\n  ") + first + std::string(std::max(width, first.size()) - first.size(), ' ');
    }
    if (offset % kGroup == 0) text += ' ';
    text += Painted(MarkOf(states[offset]), colours);
  }
  return text + "\n";
}

std::string MapLegend(Colours colours) {
  std::string text;
  for (const StateMark& mark : kStateMarks) {
    const bool has_character = mark.character != ' ';
    text += (text.empty() ? "" : "   ") + (has_character ? Painted(mark, colours) + " " : std::string()) + mark.meaning;
  }
  return text + "\n";
}

}  // namespace berth::cli
