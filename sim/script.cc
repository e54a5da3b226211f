// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a script, and the words of a line.
#include "sim/script.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

namespace berth::sim {

namespace {

constexpr std::string_view kIndent = "    ";
constexpr std::string_view kAllTheRest = "EVENT";

std::vector<std::string> WordsOf(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool IsName(const std::string& word) {
  return std::ranges::all_of(word, [](unsigned char c) { return std::isupper(c) != 0; });
}

}  // namespace

Expected<Script> ParseScript(std::string_view text) {
  Script script;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) {
      script.comments += line + "\n";
    } else if (!line.starts_with(' ')) {
      script.steps.push_back(
          {.comments = std::exchange(script.comments, {}), .command = line, .line = number, .seen = {}});
    } else if (script.steps.empty() || !script.comments.empty()) {
      return Fail(ErrorCode::kInvalid,
                  std::to_string(number) + ": no command stands right above this line, which starts with a blank");
    } else {
      script.steps.back().seen.push_back(line.substr(line.find_first_not_of(' ')));
    }
  }
  return script;
}

std::string ToText(const Script& script) {
  std::string text;
  for (const ScriptStep& step : script.steps) {
    text += step.comments + step.command + "\n";
    for (const std::string& line : step.seen) text += std::string(kIndent) + line + "\n";
  }
  return text + script.comments;
}

std::optional<Words> Match(std::string_view form, std::string_view command) {
  const std::vector<std::string> names = WordsOf(form);
  const std::vector<std::string> given = WordsOf(command);
  Words words;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i >= given.size()) return std::nullopt;
    if (names[i] == kAllTheRest) {
      std::string rest = given[i];
      for (std::size_t j = i + 1; j < given.size(); ++j) rest += " " + given[j];
      words.emplace(names[i], rest);
      return words;
    }
    if (IsName(names[i])) words.emplace(names[i], given[i]);
    if (!IsName(names[i]) && names[i] != given[i]) return std::nullopt;
  }
  return given.size() == names.size() ? std::optional(words) : std::nullopt;
}

}  // namespace berth::sim
