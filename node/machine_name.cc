// SPDX-License-Identifier: Apache-2.0
// One word in a file.
#include "node/machine_name.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "node/random_name.h"

namespace berth::node {

namespace {

constexpr std::size_t kDigits = 8;

bool IsName(const std::string& text) {
  return text.size() == kDigits && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

std::string ReadWord(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

}  // namespace

ipam::Expected<std::string> MachineName(const std::string& state_dir) {
  const std::string path = state_dir + "/machine";
  if (std::string known = ReadWord(path); IsName(known)) return known;
  std::string name = RandomDigits(kDigits);
  std::ofstream(path) << name << '\n';
  if (ReadWord(path) == name) return name;
  return ipam::Fail(ipam::ErrorCode::kIo, "write " + path, "is it on a writable file system with room?");
}

}  // namespace berth::node
