// SPDX-License-Identifier: Apache-2.0
// Compares resourceVersions, which are decimal numbers that grow with each change.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

namespace berth::k8sclient {

// 0: the text is no number.
[[nodiscard]] inline std::uint64_t ParseVersion(const std::string& text) {
  std::uint64_t version = 0;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, version).ptr == end ? version : 0;
}

// Compares two versions of objects of one kind.
[[nodiscard]] inline bool IsOlder(const std::string& version, const std::string& other) {
  return ParseVersion(version) < ParseVersion(other);
}

}  // namespace berth::k8sclient
