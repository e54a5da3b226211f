// SPDX-License-Identifier: Apache-2.0
// Booleans in CNI variables.
#pragma once

#include <optional>
#include <string_view>

#include "base/ascii.h"

namespace berth::cni {

// "1", "0", and "true", "false" in any letter case; nullopt for any other text.
[[nodiscard]] constexpr std::optional<bool> ParseBool(std::string_view text) {
  if (text == "1" || EqualAnyCase(text, "true")) return true;
  if (text == "0" || EqualAnyCase(text, "false")) return false;
  return std::nullopt;
}

}  // namespace berth::cni
