// SPDX-License-Identifier: Apache-2.0
// The map as a web page: pools, blocks, the state of each address, and who has which.
#pragma once

#include <string>

#include "cli/inventory.h"

namespace berth::cli {

// One HTML document that needs nothing else: no script, no picture, no request; its own Content-Security-Policy forbids
// them. Each address is a cell with the character of its state, so nobody needs to tell colours apart. A cell with an
// entry says on hover who has the address, and leads to its row in the table of addresses.
[[nodiscard]] std::string MapPage(const Inventory& inventory);

}  // namespace berth::cli
