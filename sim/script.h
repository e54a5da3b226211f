// SPDX-License-Identifier: Apache-2.0
// Script: a history that a person wrote down: commands, and under each what is to be seen (docs/simulation.md).
//
// Empty lines and lines that start with "#" are comments. A line that starts with a blank is what the command above it
// prints. Every other line is a command. Nothing here runs anything: script_world.h does.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace berth::sim {

// A command, and its surroundings in the text.
struct ScriptStep {
  std::string comments;  // the lines above it, with their newlines
  std::string command;
  int line = 0;                   // of the command; the first line of a text is 1
  std::vector<std::string> seen;  // lines without the blanks before them
};

struct Script {
  std::vector<ScriptStep> steps;
  std::string comments;  // after the last step
};

// Errors: kInvalid: something is to be seen before the first command.
[[nodiscard]] Expected<Script> ParseScript(std::string_view text);
// The inverse of ParseScript, with four blanks before each line that is seen.
[[nodiscard]] std::string ToText(const Script& script);

// The words of a command that stand for something, by their names.
using Words = std::map<std::string, std::string, std::less<>>;
// The form of a command is words as they stand in the command, and names in capitals that stand for a word each, such
// as "add POD on MACHINE". The name EVENT stands for all words from there on. Nothing: the command has another form.
[[nodiscard]] std::optional<Words> Match(std::string_view form, std::string_view command);

}  // namespace berth::sim
