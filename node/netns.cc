// SPDX-License-Identifier: Apache-2.0
// Finds the file names of network namespaces, and whether the files exist.
#include "node/netns.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>

#include "node/folder.h"

namespace berth::node {

namespace {

constexpr std::size_t kNameMax = 64;  // containerd's names have 40 characters, CRI-O's 36

bool IsNetnsName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kNameMax && name.front() != '.' && std::ranges::all_of(name, is_plain);
}

}  // namespace

std::string NetnsName(std::string_view cni_netns) {
  const std::size_t slash = cni_netns.rfind('/');
  if (slash == std::string_view::npos || !cni_netns.substr(0, slash).ends_with("/netns")) return {};
  const std::string_view name = cni_netns.substr(slash + 1);
  return IsNetnsName(name) ? std::string(name) : std::string();
}

NetnsState LookForNetns(const std::string& folder, const std::string& name) {
  if (!IsNetnsName(name)) return NetnsState::kGone;
  const auto opened = Folder::Open(folder, IfMissing::kFail);
  if (!opened) return NetnsState::kUnknown;
  if (opened->OpenFile(name, O_PATH)) return NetnsState::kThere;
  return errno == ENOENT ? NetnsState::kGone : NetnsState::kUnknown;
}

}  // namespace berth::node
