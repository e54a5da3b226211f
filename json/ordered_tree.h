// SPDX-License-Identifier: Apache-2.0
// ParseJson: JSON text as a tree, within bounds, for messages that Go's decoder reads as well.
//
// The tree keeps what that decoder looks at: the order of members, and those whose names are the same or differ in
// letter case only. Nothing can exceed its depth and its number of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth {

// The last member of that name in any letter case; null pointer: there is none. kAbsent: members that are null are
// passed over. Requires: an object.
enum class Nulls : std::uint8_t { kAbsent, kPresent };
[[nodiscard]] const nlohmann::ordered_json* FindMember(const nlohmann::ordered_json& object, std::string_view name,
                                                       Nulls nulls);

inline constexpr int kJsonDepthMax = 256;
inline constexpr std::size_t kJsonValuesMax = 1'000'000;

// Parses one JSON text. Of an object at the top only the members named in `wanted` (in any letter case) are kept; what
// is skipped is checked all the same.
// Errors: kDecode: not JSON (RFC 8259, without a byte order mark), bytes after it, NUL bytes, invalid UTF-8, deeper
// than kJsonDepthMax, more than `values_max` values kept.
[[nodiscard]] Expected<nlohmann::ordered_json> ParseJson(std::string_view text,
                                                         std::span<const std::string_view> wanted,
                                                         std::size_t values_max = kJsonValuesMax);

}  // namespace berth
