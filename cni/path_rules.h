// SPDX-License-Identifier: Apache-2.0
// PathRules: which files of the node a network configuration may name.
//
// The plugin runs as root, and in many clusters tenants write network configurations. Therefore berth accepts for each
// field only paths where files of this kind usually are, and paths that root on the node allows.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cni/config.h"

namespace berth::cni {

// An allowed path: a file, or, if the rule ends with "/", everything below that folder.
using PathRule = std::string;

// Parses a file with lines "<field> <path>" and returns the rules of `field`. Ignores empty lines and lines that begin
// with "#". Each field has its own rules: for example, a tenant could put a kubeconfig, whose plugins are executed,
// into a folder for logs.
[[nodiscard]] std::vector<PathRule> ParseRules(std::string_view text, std::string_view field);

// Checks the path in the file system. Returns what is wrong with the path, as the end of a sentence about the path,
// such as "leads through a symbolic link"; empty if nothing is wrong.
using PathFault = std::function<std::string(const PathRule& rule, std::string_view path)>;

struct PathChecks {
  // Returns more rules, from the node's administrator. CheckPaths calls it if no built-in rule of the field allows a
  // path.
  std::function<std::vector<PathRule>(std::string_view field)> more_rules;
  PathFault fault;
};

// Checks the paths in the fields `ipam.<field>`. `fields`: those whose files the program opens, because a call must not
// fail because of a field that the program does not use.
// Errors: kInvalid, with field, value and remedy.
[[nodiscard]] Expected<void> CheckPaths(const IpamConfig& config, std::span<const std::string_view> fields,
                                        const PathChecks& checks);

}  // namespace berth::cni
