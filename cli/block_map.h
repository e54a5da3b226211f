// SPDX-License-Identifier: Apache-2.0
// The map of a block: the state of each address, and one character per address, readable without colours.
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
  const char* name;     // name in the legend
  const char* meaning;  // explanation in the legend
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

// The states of all addresses of the block, in order. `pool` is nullptr if the pool does not exist or cannot be parsed:
// then no address is free. A held entry is an orphan in two cases: inventory.pods has another pod with the name in the
// entry; or it has no pod with this name, and the entry has the UID of a pod that is not static (the mirror pod of a
// static pod may be missing). An entry without a pod's name is no orphan. If the inventory has no pods at all, no entry
// is an orphan: the inventory may have been read without pods.
[[nodiscard]] std::vector<AddressState> StatesOf(const Inventory& inventory, const ipam::Block& block,
                                                 const ipam::Pool* pool);

// A line about the block, and then lines with 32 addresses each. Each of these lines begins with its first address.
// `pool`: like for StatesOf.
[[nodiscard]] std::string MapOf(const Inventory& inventory, const ipam::Block& block, const ipam::Pool* pool,
                                Colours colours);

// One line that explains the characters.
[[nodiscard]] std::string MapLegend(Colours colours);

}  // namespace berth::cli
