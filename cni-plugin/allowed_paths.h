// SPDX-License-Identifier: Apache-2.0
// AllowedPaths: the paths that root on this node allows in network configurations.
//
// The paths are in /etc/berth/allowed-paths and in berth.allowed-paths beside the program. berth reads these files only
// if a configuration names a path that no built-in rule allows, and ignores a file that anyone but root may write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cni/path_rules.h"

namespace berth::cni_plugin {

// The checks for cni::CheckPaths. Errors in a file go to stderr.
[[nodiscard]] cni::PathChecks PathChecksOfNode();

// The field's rules in one file. Empty if the file is missing.
// Errors: kInvalid: the file is not a regular file, does not belong to root (or to the user that runs the program),
// others may write it, or it is larger than 64 KiB; kIo: it cannot be read, or is a symbolic link.
[[nodiscard]] Expected<std::vector<cni::PathRule>> ReadRules(const std::string& file, std::string_view field);

// True if the folder of the rule, or a part of `path` below it, is a symbolic link. False for a rule that names one
// file.
[[nodiscard]] bool HasLinkBelow(const cni::PathRule& rule, std::string_view path);

}  // namespace berth::cni_plugin
