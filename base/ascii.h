// SPDX-License-Identifier: Apache-2.0
// ASCII text: letter case, independent of the locale.
#pragma once

#include <algorithm>
#include <string_view>

namespace berth {

[[nodiscard]] constexpr char LowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

[[nodiscard]] constexpr bool EqualAnyCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return LowerAscii(x) == LowerAscii(y); });
}

}  // namespace berth
