// SPDX-License-Identifier: Apache-2.0
// Parses kube-scheduler's question, and writes the extender's answer.
#include "extender/wire.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace berth::extender {

namespace {

using nlohmann::json;

bool IsSameButCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Returns the member with exactly this name, or otherwise a member with this name in any letter case, like Go's decoder
// does; nullptr: absent or null.
json* Member(json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  auto found = object.find(key);
  if (found == object.end()) {
    found = std::find_if(object.begin(), object.end(), [](const json&) { return false; });
    for (auto at = object.begin(); at != object.end(); ++at) {
      if (IsSameButCase(at.key(), key)) found = at;
    }
  }
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// True if the text has more than kDepthMax levels; real pods have fewer than 20. nlohmann/json calls a function
// recursively for each level when it copies or writes a value. The callback of its parser could limit the levels, but
// takes quadratic time for a list of many objects.
bool IsNestedTooDeep(std::string_view text) {
  constexpr int kDepthMax = 100;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      if (++depth > kDepthMax) return true;
    } else if (!in_string && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return false;
}

std::string NodeName(json& node) {
  json* const metadata = Member(node, "metadata");
  json* const name = metadata == nullptr ? nullptr : Member(*metadata, "name");
  return name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
}

Expected<std::vector<std::string>> Once(std::vector<std::string> names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty()) return Fail(ErrorCode::kInvalid, "a node in the list has no name");
    if (!seen.insert(name).second) return Fail(ErrorCode::kInvalid, "node " + Quoted(name) + " is in the list twice");
  }
  return names;
}

Expected<std::vector<std::string>> ReadNames(json* names, json* items) {
  std::vector<std::string> read;
  if (names != nullptr) {
    if (!names->is_array()) return Fail(ErrorCode::kInvalid, "NodeNames is not a list");
    for (const json& name : *names) read.push_back(name.is_string() ? name.get<std::string>() : std::string());
    return Once(std::move(read));
  }
  if (items == nullptr || !items->is_array())
    return Fail(ErrorCode::kInvalid, "the body has neither NodeNames nor Nodes with items");
  for (json& node : *items) read.push_back(NodeName(node));
  return Once(std::move(read));
}

// Returns the key as Go writes it, or in lower case as in the types of 2017.
std::string Key(const char* go_name, const char* lower, bool has_lower_keys) {
  return has_lower_keys ? lower : go_name;
}

// Returns JSON text. Replaces bytes that are not UTF-8. Only a malicious caller sends such bytes.
std::string Text(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

Expected<Question> ParseQuestion(std::string_view body) {
  if (IsNestedTooDeep(body)) return Fail(ErrorCode::kInvalid, "the body is nested too deep");
  json args = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (args.is_discarded()) return Fail(ErrorCode::kDecode, "the body is not JSON");
  json* const pod = Member(args, "Pod");
  if (pod == nullptr || !pod->is_object()) return Fail(ErrorCode::kInvalid, "the body has no Pod");
  json* const names = Member(args, "NodeNames");
  json* const nodes = Member(args, "Nodes");
  // `nodes` is a NodeList, or a plain list of Nodes.
  json* const items = nodes == nullptr || nodes->is_array() ? nodes : Member(*nodes, "items");
  auto read = ReadNames(names, items);
  if (!read) return std::unexpected(std::move(read.error()));
  Question question{.pod = std::move(*pod), .names = *std::move(read), .nodes = {}, .has_lower_keys = false};
  if (names == nullptr) question.nodes = std::move(*nodes);
  question.has_lower_keys = args.contains("pod");
  return question;
}

std::string FilterAnswer(Question question, const Choice& choice) {
  if (!choice.error.empty()) return FilterError(choice.error, question.has_lower_keys);
  const bool lower = question.has_lower_keys;
  json answer = {{Key("FailedNodes", "failedNodes", lower), choice.full},
                 {Key("FailedAndUnresolvableNodes", "failedAndUnresolvableNodes", lower), choice.excluded},
                 {Key("Error", "error", lower), ""}};
  json& names = answer[Key("NodeNames", "nodenames", lower)];
  json& nodes = answer[Key("Nodes", "nodes", lower)];
  if (question.nodes.is_null()) {
    names = choice.nodes;
    return Text(answer);
  }
  json* const items = question.nodes.is_array() ? &question.nodes : Member(question.nodes, "items");
  json kept = json::array();
  auto chosen = choice.nodes.begin();  // in the order of the items
  for (std::size_t i = 0; i < question.names.size() && chosen != choice.nodes.end(); ++i) {
    if (question.names[i] != *chosen) continue;
    kept.push_back(std::move((*items)[i]));
    ++chosen;
  }
  *items = std::move(kept);
  nodes = std::move(question.nodes);
  return Text(answer);
}

std::string FilterError(const std::string& error, bool has_lower_keys) {
  return Text({{Key("Error", "error", has_lower_keys), "berth: " + error}});
}

std::string ScoreAnswer(const Question& question, const std::vector<int>& scores) {
  const bool lower = question.has_lower_keys;
  json answer = json::array();
  for (std::size_t i = 0; i < question.names.size(); ++i)
    answer.push_back({{Key("Host", "host", lower), question.names[i]}, {Key("Score", "score", lower), scores[i]}});
  return Text(answer);
}

}  // namespace berth::extender
