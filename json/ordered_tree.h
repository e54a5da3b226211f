// SPDX-License-Identifier: Apache-2.0
// ParseJson: parses JSON text into a tree, with limits, for messages that Go's decoder also reads.
//
// The tree keeps what Go's decoder takes into account: the order of members, and members with the same name or with
// names that differ only in letter case. A tree has limited depth and a limited number of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth {

enum class Nulls : std::uint8_t { kAbsent, kPresent };
// Returns the last member with that name in any letter case, or nullptr if there is none. With kAbsent, ignores members
// with the value null. Requires: `object` is an object.
[[nodiscard]] const nlohmann::ordered_json* FindMember(const nlohmann::ordered_json& object, std::string_view name,
                                                       Nulls nulls);

inline constexpr int kJsonDepthMax = 256;
inline constexpr std::size_t kJsonValuesMax = 1'000'000;

// Parses one JSON text. If the text is an object, keeps only the top-level members in `wanted` (in any letter case).
// Skipped members must also be valid JSON.
// Errors: kDecode: not JSON (RFC 8259, without a byte order mark), bytes after it, NUL bytes, invalid UTF-8, deeper
// than kJsonDepthMax, or more than `values_max` values in the kept members.
[[nodiscard]] Expected<nlohmann::ordered_json> ParseJson(std::string_view text,
                                                         std::span<const std::string_view> wanted,
                                                         std::size_t values_max = kJsonValuesMax);

}  // namespace berth
