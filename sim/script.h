// SPDX-License-Identifier: Apache-2.0
// Script: a history that a person wrote down: commands, and under each command what happens (docs/simulation.md).
//
// Empty lines and lines that start with "#" are comments. A line that starts with a blank is output of the command
// above it. Every other line is a command. script_world.h runs scripts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace berth::sim {

// A command, its comments and its output.
struct ScriptStep {
  std::string comments;  // the comment lines above the command, with their newlines
  std::string command;
  int line = 0;                   // line of the command; the first line of a text is 1
  std::vector<std::string> seen;  // output lines without the blanks before them
};

struct Script {
  std::vector<ScriptStep> steps;
  std::string comments;  // comments after the last step
};

// Errors: kInvalid if output stands before the first command, or below a comment.
[[nodiscard]] Expected<Script> ParseScript(std::string_view text);
// The inverse of ParseScript. Four blanks stand before each output line.
[[nodiscard]] std::string ToText(const Script& script);

// The words of a command that the form's names stand for, by name.
using Words = std::map<std::string, std::string, std::less<>>;
// A form consists of words that a command must contain, and of names in capitals that each stand for one word, such as
// "add POD on MACHINE". The name EVENT stands for all remaining words. Nothing: the command has another form.
[[nodiscard]] std::optional<Words> Match(std::string_view form, std::string_view command);

}  // namespace berth::sim
