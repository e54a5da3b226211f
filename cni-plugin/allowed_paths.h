// SPDX-License-Identifier: Apache-2.0
// AllowedPaths: what root on this node allows network configurations to name, and what stands there.
//
// Read from /etc/berth/allowed-paths and from berth.allowed-paths beside the program, and only if a configuration names
// a path that needs leave. A file that somebody else may have written says nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cni/path_rules.h"

namespace berth::cni_plugin {

// For cni::CheckPaths. What is wrong with a file is said on stderr.
[[nodiscard]] cni::PathChecks PathChecksOfNode();

// The field's rules in one file: none if it is missing. Errors: kInvalid: it is not root's, or others may write it;
// kIo.
[[nodiscard]] Expected<std::vector<cni::PathRule>> ReadRules(const std::string& file, std::string_view field);

// Whether the path leads through a symbolic link below the folder that the rule names.
[[nodiscard]] bool HasLinkBelow(const cni::PathRule& rule, std::string_view path);

}  // namespace berth::cni_plugin
