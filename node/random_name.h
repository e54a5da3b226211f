// SPDX-License-Identifier: Apache-2.0
// Names that two processes do not share. The number of a process is no such name: in two containers it may be the same.
#pragma once

#include <cstddef>
#include <string>

namespace berth::node {

// That many random hexadecimal digits.
[[nodiscard]] std::string RandomDigits(std::size_t count);

}  // namespace berth::node
