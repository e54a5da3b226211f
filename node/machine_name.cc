// SPDX-License-Identifier: Apache-2.0
// One word in a file.
#include "node/machine_name.h"

#include <algorithm>
#include <cctype>

#include "node/random_name.h"

namespace berth::node {

namespace {

constexpr const char* kFile = "machine";
constexpr std::size_t kDigits = 8;

bool IsName(const std::string& text) {
  return text.size() == kDigits && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace

ipam::Expected<std::string> MachineName(const Folder& state) {
  if (const auto known = state.Read(kFile)) {
    std::string name = known->substr(0, known->find('\n'));
    if (IsName(name)) return name;
  }
  std::string name = RandomDigits(kDigits);
  if (auto written = state.Write(kFile, name + "\n", FileSync::kYes); !written) return std::unexpected(written.error());
  return name;
}

}  // namespace berth::node
