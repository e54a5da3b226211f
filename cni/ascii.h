// SPDX-License-Identifier: Apache-2.0
// ASCII text: letter case without a locale, and booleans as CNI variables spell them.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

namespace berth::cni {

[[nodiscard]] constexpr char LowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

[[nodiscard]] constexpr bool EqualAnyCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return LowerAscii(x) == LowerAscii(y); });
}

// "1", "0", and "true", "false" in any case; nothing for other text.
[[nodiscard]] constexpr std::optional<bool> ParseBool(std::string_view text) {
  if (text == "1" || EqualAnyCase(text, "true")) return true;
  if (text == "0" || EqualAnyCase(text, "false")) return false;
  return std::nullopt;
}

}  // namespace berth::cni
