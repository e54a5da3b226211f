// SPDX-License-Identifier: Apache-2.0
// Random names, so that no two processes use the same. Process IDs are no such names: in two containers they may be
// equal.
#pragma once

#include <cstddef>
#include <string>

namespace berth::node {

// `count` random hexadecimal digits.
[[nodiscard]] std::string RandomDigits(std::size_t count);

}  // namespace berth::node
