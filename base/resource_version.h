// SPDX-License-Identifier: Apache-2.0
// Compares resourceVersions, which are decimal numbers that grow with each change of an object (KEP-5504).
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace berth {

// 0: the text is no number, or the number is too large.
[[nodiscard]] inline std::uint64_t ParseVersion(std::string_view text) {
  std::uint64_t version = 0;  // stays 0 if from_chars fails
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  return std::from_chars(begin, end, version).ptr == end ? version : 0;
}

// True if `version` is older than `other`. Requires: both are versions of objects of one kind.
[[nodiscard]] inline bool IsOlder(std::string_view version, std::string_view other) {
  return ParseVersion(version) < ParseVersion(other);
}

}  // namespace berth
