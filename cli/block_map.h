// SPDX-License-Identifier: Apache-2.0
// The map of a block: the state of each address, and one character for each, readable without colours.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/inventory.h"

namespace berth::cli {

enum class Colours : std::uint8_t { kOff, kOn };

enum class AddressState : std::uint8_t { kFree, kHeld, kOrphan, kStandby, kCooling, kReserved, kNotAssignable };

struct StateMark {
  AddressState state;
  char character;
  const char* colour;   // SGR parameters for terminals
  const char* name;     // as in docs/glossary.md
  const char* meaning;  // in a legend
};
inline constexpr std::array<StateMark, 7> kStateMarks = {
    {{AddressState::kFree, '.', "2", "free", "free"},
     {AddressState::kHeld, '#', "32", "held", "held by a pod"},
     {AddressState::kOrphan, '?', "1;31", "orphan", "orphan: its pod is gone"},
     {AddressState::kStandby, 's', "36", "standby", "standby"},
     {AddressState::kCooling, '~', "34", "cooling", "cooling"},
     {AddressState::kReserved, '!', "33", "reserved", "reserved"},
     {AddressState::kNotAssignable, ' ', "0", "not assignable", "blank: no pod may get it"}}};
[[nodiscard]] inline const StateMark& MarkOf(AddressState state) {
  return kStateMarks[static_cast<std::size_t>(state)];
}

// The state of each address of the block, in order. `pool` nullptr: the pool does not exist, so nothing is free. A held
// entry whose pod is not in inventory.pods is an orphan; an inventory without any pods has no orphans.
[[nodiscard]] std::vector<AddressState> StatesOf(const Inventory& inventory, const ipam::Block& block,
                                                 const ipam::Pool* pool);

// Several lines, each ended; 32 addresses a line, which begins with the first of them. `pool` as above.
[[nodiscard]] std::string MapOf(const Inventory& inventory, const ipam::Block& block, const ipam::Pool* pool,
                                Colours colours);

// What the characters mean: one line.
[[nodiscard]] std::string MapLegend(Colours colours);

}  // namespace berth::cli
