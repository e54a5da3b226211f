// SPDX-License-Identifier: Apache-2.0
// Reads cases. Parses the comments itself, because a YAML parser drops comments.
#include "e2e/crds/object_cases.h"

#include <cctype>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "e2e/crds/requests.h"
#include "e2e/crds/yaml_json.h"

namespace berth::e2e {

namespace {

// "A pool of one address." -> "APoolOfOneAddress".
std::string Identifier(std::string_view sentence) {
  std::string identifier;
  bool upper = true;
  for (const char c : sentence) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) identifier += upper ? static_cast<char>(std::toupper(byte)) : c;
    upper = std::isalnum(byte) == 0;
  }
  return identifier;
}

// The text after `key`, if the line begins with `key`.
std::optional<std::string> After(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return std::nullopt;
  return std::string(line.substr(key.size()));
}

void ReadComment(std::string_view comment, ObjectCase& result) {
  if (auto text = After(comment, "refused: ")) {
    result.refused.push_back(std::move(*text));
  } else if (auto request = After(comment, "gets: ")) {
    result.accepted = true;
    if (*request != "nothing") result.gets.push_back(std::move(*request));
  } else if (auto target = After(comment, "patch: ")) {
    result.patch = std::move(*target);
  } else if (auto who = After(comment, "as: ")) {
    result.as = std::move(*who);
  } else if (auto victim = After(comment, "delete: ")) {
    result.remove = std::move(*victim);
  } else if (comment == "accepted") {
    result.accepted = true;
  } else if (result.name.empty()) {
    result.name = Identifier(comment);
  }
}

std::vector<std::string> Documents(const std::string& path) {
  std::vector<std::string> documents(1);
  std::istringstream text(ReadSource(path));
  for (std::string line; std::getline(text, line);) {
    if (line == "---") {
      documents.emplace_back();
    } else {
      documents.back() += line + "\n";
    }
  }
  return documents;
}

ObjectCase ReadCase(const std::string& path, const std::string& text) {
  ObjectCase result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with("# ");) ReadComment(line.substr(2), result);
  result.document = JsonOfYaml(text);
  if (result.accepted == result.refused.empty() && !result.name.empty()) return result;
  throw std::runtime_error(path + ": case " + result.name + " says neither or both of accepted and refused");
}

}  // namespace

std::vector<ObjectCase> LoadCases(const std::string& path) {
  std::vector<ObjectCase> cases;
  for (const std::string& text : Documents(path)) cases.push_back(ReadCase(path, text));
  return cases;
}

std::vector<nlohmann::json> LoadObjects(const std::string& path) {
  std::vector<nlohmann::json> objects;
  for (const std::string& text : Documents(path)) objects.push_back(JsonOfYaml(text));
  return objects;
}

}  // namespace berth::e2e
