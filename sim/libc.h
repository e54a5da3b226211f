// SPDX-License-Identifier: Apache-2.0
// What libc.cc can be asked for, beside being the C library.
#pragma once

#include <string_view>

namespace berth::sim {

// Locks of files whose path ends so keep nobody out from now on. Empty: of none.
void FreeLocksOf(std::string_view suffix);

}  // namespace berth::sim
