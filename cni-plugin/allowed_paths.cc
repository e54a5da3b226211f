// SPDX-License-Identifier: Apache-2.0
// Reads the two files of allowed paths, checks their owner and mode, and looks for symbolic links.
#include "cni-plugin/allowed_paths.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "cni-plugin/plugin.h"

namespace berth::cni_plugin {
namespace {

constexpr const char* kFileOfNode = "/etc/berth/allowed-paths";
constexpr std::string_view kFileBesideProgram = "berth.allowed-paths";
constexpr std::size_t kFileBytesMax = std::size_t{64} << 10;

std::string FolderOfProgram() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return {};
  const std::string_view program(path.data(), static_cast<std::size_t>(length));
  return std::string(program.substr(0, program.rfind('/') + 1));
}

}  // namespace

Expected<std::vector<cni::PathRule>> ReadRules(const std::string& file, std::string_view field) {
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!opened.is_open() && errno == ENOENT) return std::vector<cni::PathRule>();
  struct stat status{};
  if (!opened.is_open() || fstat(opened.descriptor(), &status) != 0) {
    return Fail(ErrorCode::kIo, file + ": " + std::strerror(errno));
  }
  const bool is_roots = status.st_uid == 0 || status.st_uid == geteuid();
  if (!S_ISREG(status.st_mode) || !is_roots || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(ErrorCode::kInvalid,
                file + " has no effect: it must be a file of root that nobody else may write",
                "chown root " + file + "; chmod 644 " + file);
  }
  auto text = ReadAll(opened.descriptor(), kFileBytesMax, file);
  if (!text) return std::unexpected(text.error());
  if (text->size() > kFileBytesMax) {
    return Fail(ErrorCode::kInvalid, file + " has no effect: it is larger than 64 KiB", "shorten the file");
  }
  return cni::ParseRules(*text, field);
}

bool HasLinkBelow(const cni::PathRule& rule, std::string_view path) {
  if (!rule.ends_with('/')) return false;
  // Check each prefix of the path for a link, beginning with the rule's folder.
  for (std::size_t end = rule.size() - 1; end != std::string_view::npos;
       end = end == path.size() ? std::string_view::npos : std::min(path.find('/', end + 1), path.size())) {
    struct stat status{};
    const std::string part(path.substr(0, end));
    if (part.empty()) continue;                           // the root folder
    if (lstat(part.c_str(), &status) != 0) return false;  // a missing file is not a link
    if (S_ISLNK(status.st_mode)) return true;
  }
  return false;
}

cni::PathChecks PathChecksOfNode() {
  const auto more_rules = [](std::string_view field) {
    std::vector<cni::PathRule> rules;
    for (const std::string& file : {std::string(kFileOfNode), FolderOfProgram() + std::string(kFileBesideProgram)}) {
      const auto read = ReadRules(file, field);
      if (!read) Complain("berth", read.error());
      if (read) rules.insert(rules.end(), read->begin(), read->end());
    }
    return rules;
  };
  const auto fault = [](const cni::PathRule& rule, std::string_view path) {
    return HasLinkBelow(rule, path) ? "leads through a symbolic link below " + rule : std::string();
  };
  return {.more_rules = more_rules, .fault = fault};
}

}  // namespace berth::cni_plugin
