// SPDX-License-Identifier: Apache-2.0
// From a CRD's YAML to a check of JSON.
#include "k8sclient/testing/model_schema.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>

#include <yaml-cpp/yaml.h>

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

constexpr std::array kBounds = {
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"};

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
json BoundsOf(const YAML::Node& schema) {
  json bounds = {{"type", schema["type"].as<std::string>("")}};
  for (const char* const bound : kBounds) {
    if (schema[bound]) bounds[bound] = schema[bound].as<std::int64_t>();
  }
  for (const auto& property : schema["properties"]) {
    bounds["properties"][property.first.as<std::string>()] = BoundsOf(property.second);
  }
  for (const char* const inner : {"items", "additionalProperties"}) {
    if (schema[inner] && schema[inner].IsMap()) bounds[inner] = BoundsOf(schema[inner]);
  }
  return bounds;
}

bool HasType(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  return true;
}

// What the bounds of its type compare.
std::int64_t SizeOf(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_string()) return static_cast<std::int64_t>(value.get_ref<const std::string&>().size());
  return static_cast<std::int64_t>(value.size());
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
std::string Check(const json& bounds, const json& value, const std::string& path) {
  if (!HasType(value, bounds["type"])) return path + ": must be of type " + bounds["type"].get<std::string>();
  const std::int64_t size = SizeOf(value);
  for (const char* const bound : kBounds) {
    if (!bounds.contains(bound)) continue;
    const std::int64_t limit = bounds[bound];
    const bool is_broken = bound[1] == 'i' ? size < limit : size > limit;
    if (is_broken) return path + ": " + std::to_string(size) + " breaks " + bound + " " + std::to_string(limit);
  }
  if (!value.is_structured()) return {};
  for (const auto& [key, inner] : value.items()) {
    const json* rule = bounds.contains("items") ? &bounds["items"] : nullptr;
    if (bounds.contains("additionalProperties")) rule = &bounds["additionalProperties"];
    if (bounds.contains("properties") && bounds["properties"].contains(key)) rule = &bounds["properties"][key];
    if (rule == nullptr || key == "metadata") continue;
    std::string violation = path;
    violation = Check(*rule, inner, violation.append(".").append(key));
    if (!violation.empty()) return violation;
  }
  return {};
}

}  // namespace

const ModelSchema& ModelSchema::Of(const std::string& collection) {
  static std::mutex mutex;
  static std::map<std::string, ModelSchema> schemas;
  const std::scoped_lock lock(mutex);
  const auto [known, is_new] = schemas.try_emplace(collection);
  if (!is_new) return known->second;
  const std::string plural = collection.substr(collection.rfind('/') + 1);
  const std::string file = std::string(BERTH_SOURCE_DIR) + "/crds/" + plural.substr(0, plural.size() - 1) + ".yaml";
  if (std::filesystem::exists(file)) {
    known->second.root_ = BoundsOf(YAML::LoadFile(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
  }
  return known->second;
}

std::string ModelSchema::Violation(const json& object) const {
  return root_.is_null() ? std::string() : Check(root_, object, "");
}

}  // namespace berth::k8sclient::testing
