// SPDX-License-Identifier: Apache-2.0
// The map as a web page: pools, blocks, the state of each address, and which pod has which address.
#pragma once

#include <string>

#include "cli/inventory.h"

namespace berth::cli {

// One HTML document. It has no scripts and pictures, and sends no requests; its Content-Security-Policy forbids all
// three. Each address is a cell with the character of its state, so nobody needs to distinguish colours. A cell with an
// entry shows the pod on hover, and links to its row in the table of addresses.
[[nodiscard]] std::string MapPage(const Inventory& inventory);

}  // namespace berth::cli
