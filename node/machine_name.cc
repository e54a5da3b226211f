// SPDX-License-Identifier: Apache-2.0
// Keeps the machine's name in a file.
#include "node/machine_name.h"

#include <algorithm>
#include <cctype>

namespace berth::node {

namespace {

constexpr const char* kFile = "machine";
constexpr std::size_t kDigits = 8;

bool IsName(const std::string& text) {
  return text.size() == kDigits && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// Empty: the file is missing, or its content is not a name.
std::string ReadName(const Folder& state) {
  const std::string text = state.Read(kFile).value_or("");
  const std::string name = text.substr(0, text.find('\n'));
  return IsName(name) ? name : "";
}

}  // namespace

Expected<std::string> MachineName(const Folder& state) {
  if (std::string known = ReadName(state); !known.empty()) return known;
  const std::string name = RandomDigits(kDigits);
  if (auto written = state.Write(kFile, name + "\n", FileSync::kYes); !written) return std::unexpected(written.error());
  // Another process may have written another name meanwhile: use the name that is in the file now.
  const std::string made = ReadName(state);
  return made.empty() ? name : made;
}

}  // namespace berth::node
