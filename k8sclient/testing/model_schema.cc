// SPDX-License-Identifier: Apache-2.0
// ModelSchema: reads a CRD's YAML, and checks JSON against it.
#include "k8sclient/testing/model_schema.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <regex.h>
#include <stdexcept>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/places.h"
#include "k8sclient/testing/model_rules.h"

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

struct SchemaRule {
  ModelRule rule;
  std::string field;  // the field in the rule's error, relative to the node: ".used"
  std::string text;
  bool uses_old_value;  // uses the previous value
  bool only_for_new;    // applies only if there is no previous value
};

struct Bound {
  const char* name;
  bool is_least;
  std::int64_t limit;
};

}  // namespace

// The schema of one value.
struct SchemaNode {
  std::string type;
  std::vector<Bound> bounds = {};
  std::shared_ptr<regex_t> pattern = {};
  std::string pattern_text = {};
  std::string item_key = {};  // for a list: the field that must differ in all items
  std::vector<std::string> choices = {};
  std::vector<std::string> required = {};
  std::vector<SchemaRule> rules = {};
  json default_value = {};  // the default; null: none
  std::map<std::string, SchemaNode> properties = {};
  std::shared_ptr<SchemaNode> inner = {};  // for the items of a list, or the values of a map

  // The schema of the part with this name; null: no schema.
  [[nodiscard]] const SchemaNode* PartOf(const std::string& key) const {
    const auto found = properties.find(key);
    return found == properties.end() ? inner.get() : &found->second;
  }
};

namespace {

constexpr const char* kTimePattern =
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[-+][0-9]{2}:[0-9]{2})$";

json ScalarOf(const YAML::Node& node, const std::string& type) {
  if (type == "integer") return node.as<std::int64_t>();
  if (type == "boolean") return node.as<bool>();
  return node.as<std::string>();
}

// Uses the C library's regex, which needs little stack for long texts: the simulator's threads have small stacks.
std::shared_ptr<regex_t> Compile(const std::string& pattern) {
  const std::shared_ptr<regex_t> compiled(new regex_t(), [](regex_t* regex) {
    regfree(regex);
    delete regex;
  });
  if (regcomp(compiled.get(), pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    throw std::runtime_error("not a pattern: " + pattern);
  }
  return compiled;
}

std::vector<SchemaRule> RulesOf(const YAML::Node& rules) {
  std::vector<SchemaRule> all;
  for (const auto& rule : rules) {
    const auto text = rule["rule"].as<std::string>();
    all.push_back({.rule = RuleOf(text),
                   .field = rule["fieldPath"].as<std::string>(""),
                   .text = text,
                   .uses_old_value = text.find("oldSelf") != std::string::npos,
                   .only_for_new = rule["optionalOldSelf"].as<bool>(false)});
  }
  return all;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
SchemaNode NodeOf(const YAML::Node& schema) {
  constexpr std::array kBounds = {
      "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"};
  SchemaNode node{.type = schema["type"].as<std::string>("")};
  for (const char* const name : kBounds) {
    if (schema[name]) node.bounds.push_back({name, name[1] == 'i', schema[name].as<std::int64_t>()});
  }
  if (schema["default"]) node.default_value = ScalarOf(schema["default"], node.type);
  node.pattern_text =
      schema["pattern"].as<std::string>(schema["format"].as<std::string>("") == "date-time" ? kTimePattern : "");
  if (!node.pattern_text.empty()) node.pattern = Compile(node.pattern_text);
  // No list in berth's CRDs has two keys.
  if (schema["x-kubernetes-list-map-keys"]) node.item_key = schema["x-kubernetes-list-map-keys"][0].as<std::string>();
  if (schema["enum"]) node.choices = schema["enum"].as<std::vector<std::string>>();
  if (schema["required"]) node.required = schema["required"].as<std::vector<std::string>>();
  node.rules = RulesOf(schema["x-kubernetes-validations"]);
  for (const auto& property : schema["properties"]) {
    node.properties.emplace(property.first.as<std::string>(), NodeOf(property.second));
  }
  for (const char* const inner : {"items", "additionalProperties"}) {
    if (schema[inner] && schema[inner].IsMap()) node.inner = std::make_shared<SchemaNode>(NodeOf(schema[inner]));
  }
  return node;
}

bool HasType(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  return true;
}

// The number that bounds limit: an integer itself, the characters of a string, the items of a list or map.
std::int64_t SizeOf(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_string()) {
    return std::ranges::count_if(value.get_ref<const std::string&>(), [](char c) { return (c & 0xC0) != 0x80; });
  }
  return static_cast<std::int64_t>(value.size());
}

std::optional<Refused> BrokenBound(const SchemaNode& node, const json& value, const std::string& path) {
  if (!HasType(value, node.type)) return Invalid(path, "must be of type " + node.type);
  const std::int64_t size = SizeOf(value);
  for (const Bound& bound : node.bounds) {
    if (bound.is_least ? size >= bound.limit : size <= bound.limit) continue;
    return Invalid(path, std::to_string(size) + " breaks " + bound.name + " " + std::to_string(bound.limit));
  }
  if (node.pattern && regexec(node.pattern.get(), value.get_ref<const std::string&>().c_str(), 0, nullptr, 0) != 0) {
    return Invalid(path, "should match " + node.pattern_text);
  }
  if (!node.choices.empty() &&
      std::ranges::find(node.choices, value.get_ref<const std::string&>()) == node.choices.end()) {
    return Invalid(path, value.dump() + " is not supported");
  }
  return {};
}

std::string PathTo(const std::string& path, const json& value, const std::string& key) {
  if (value.is_array()) return path + "[" + key + "]";
  return path.empty() ? key : path + "." + key;
}

// The previous value of the part; null: there was none. Items of a list have no previous value.
const json& PartOf(const json& before, const std::string& key) {
  static const json kNone;
  if (!before.is_object()) return kNone;
  const auto found = before.find(key);
  return found == before.end() ? kNone : *found;
}

std::optional<Refused> CheckForm(const SchemaNode& node, const json& value, const json& /*before*/,
                                 const std::string& path) {
  if (auto refused = BrokenBound(node, value, path)) return refused;
  if (!node.item_key.empty()) {
    std::set<std::string> seen;
    for (const json& item : value) {
      if (!seen.insert(item.value(node.item_key, "")).second) return Invalid(path, "Duplicate value");
    }
  }
  for (const std::string& key : node.required) {
    if (!value.contains(key)) return Invalid(PathTo(path, value, key), "Required value");
  }
  return {};
}

std::optional<Refused> CheckRules(const SchemaNode& node, const json& value, const json& before,
                                  const std::string& path) {
  for (const SchemaRule& rule : node.rules) {
    if (rule.uses_old_value && before.is_null() != rule.only_for_new) continue;
    if (rule.rule(value, before)) continue;
    constexpr std::size_t kTextMax = 100;
    return Invalid(path.empty() && !rule.field.empty() ? rule.field.substr(1) : path + rule.field,
                   "breaks " + rule.text.substr(0, kTextMax));
  }
  return {};
}

// Checks from the outside to the inside. Skips values that are equal to the previous value.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
std::optional<Refused> CheckAll(decltype(CheckForm)* check, const SchemaNode& node, const json& value,
                                const json& before, const std::string& path) {
  if (value == before) return {};
  if (auto refused = check(node, value, before, path)) return refused;
  if (!value.is_structured()) return {};
  for (const auto& [key, inner] : value.items()) {
    const SchemaNode* const part = node.PartOf(key);
    if (part == nullptr) continue;
    if (auto refused = CheckAll(check, *part, inner, PartOf(before, key), PathTo(path, value, key))) return refused;
  }
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
void CompleteOne(const SchemaNode& node, json& value) {
  if (value.is_array() && node.inner) {
    for (json& item : value) CompleteOne(*node.inner, item);
  }
  if (!value.is_object() || node.properties.empty()) return;
  for (auto part = value.begin(); part != value.end();) {
    part = node.properties.contains(part.key()) ? std::next(part) : value.erase(part);
  }
  for (const auto& [key, inner] : node.properties) {
    const auto part = value.find(key);
    const bool is_missing = part == value.end() || part->is_null();
    if (is_missing && !inner.default_value.is_null()) value[key] = inner.default_value;
    if (part != value.end()) CompleteOne(inner, *part);
  }
}

}  // namespace

const ModelSchema& ModelSchema::Of(const std::string& collection) {
  static std::mutex mutex;
  static std::map<std::string, ModelSchema> schemas;
  const std::scoped_lock lock(mutex);
  const auto [known, is_new] = schemas.try_emplace(collection);
  ModelSchema& schema = known->second;
  if (!is_new) return schema;
  const std::string plural = collection.substr(collection.rfind('/') + 1);
  const std::string file = SourceDir() + "/crds/" + plural.substr(0, plural.size() - 1) + ".yaml";
  if (!std::filesystem::exists(file)) return schema;
  const YAML::Node crd = YAML::LoadFile(file)["spec"];
  const YAML::Node version = crd["versions"][0];
  schema.root_ = std::make_shared<const SchemaNode>(NodeOf(version["schema"]["openAPIV3Schema"]));
  schema.kind_ = crd["names"]["kind"].as<std::string>();
  schema.has_status_ = version["subresources"].IsDefined();  // status is the only subresource of the CRDs
  for (const auto& field : version["selectableFields"]) {
    schema.selectable_.insert(field["jsonPath"].as<std::string>().substr(1));
  }
  return schema;
}

bool ModelSchema::IsSelectable(const std::string& field) const { return !is_known() || selectable_.contains(field); }

void ModelSchema::Complete(json& object) const {
  if (is_known()) CompleteOne(*root_, object);
}

std::optional<Refused> ModelSchema::Violation(const json& object, const json& before) const {
  if (!is_known()) return {};
  if (auto refused = CheckAll(CheckForm, *root_, object, before, "")) return refused;
  return CheckAll(CheckRules, *root_, object, before, "");
}

}  // namespace berth::k8sclient::testing
