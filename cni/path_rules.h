// SPDX-License-Identifier: Apache-2.0
// PathRules: which files of the node a network configuration may name.
//
// The plugin runs as root, and in many clusters a tenant writes network configurations. So a path in one leads to where
// such a file belongs and nowhere else, unless somebody who is root on the node allows it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cni/config.h"

namespace berth::cni {

// What a path may be: a file, or, where it ends with "/", everything below that folder.
using PathRule = std::string;

// The rules of a field in a file of lines "<field> <path>"; empty lines and lines that begin with "#" do not count.
// Each field has its own: where logs may go is no place for a kubeconfig, whose plugins are executed.
[[nodiscard]] std::vector<PathRule> ParseRules(std::string_view text, std::string_view field);

// Whether the path is as it may stand there. Empty: yes; else what is wrong, for a person: "is ...".
using PathFault = std::function<std::string(const PathRule& rule, std::string_view path)>;

struct PathChecks {
  // What the node's administrator allows besides; asked for if no rule of the field allows a path.
  std::function<std::vector<PathRule>(std::string_view field)> more_rules;
  // Looks at the file system.
  PathFault fault;
};

// Those of the fields `ipam.<field>` that the program reads: a DEL must not fail for the sake of another.
// Errors: kInvalid, with field, value and remedy.
[[nodiscard]] Expected<void> CheckPaths(const IpamConfig& config, std::span<const std::string_view> fields,
                                        const PathChecks& checks);

}  // namespace berth::cni
