// SPDX-License-Identifier: Apache-2.0
// The map of a block: one character for each address, readable without colours.
#pragma once

#include <cstdint>
#include <string>

#include "cli/inventory.h"

namespace berth::cli {

enum class Colours : std::uint8_t { kOff, kOn };

// Several lines, the last one ended too; 32 addresses a line, each begun with its first address. `pool` nullptr: it
// does not exist. Held entries whose pod is not in inventory.pods are orphans; without pods there are none.
[[nodiscard]] std::string MapOf(const Inventory& inventory, const ipam::Block& block, const ipam::Pool* pool,
                                Colours colours);

// What the characters mean: one line.
[[nodiscard]] std::string MapLegend(Colours colours);

}  // namespace berth::cli
