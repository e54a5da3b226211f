// SPDX-License-Identifier: Apache-2.0
// Computes a merge patch from two documents.
#include "crds/merge_patch.h"

#include <map>

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

Json KeyOf(const Json& element, std::initializer_list<std::string_view> keys) {
  Json key = Json::array();
  for (const std::string_view name : keys) {
    const bool has = element.is_object() && element.contains(name);
    key.push_back(has ? *element.find(name) : Json());
  }
  return key;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, because the API server drops other fields
Json DiffMergePatch(const Json& before, const Json& after) {
  BERTH_CHECK(before.is_object() && after.is_object());
  Json patch = Json::object();
  for (const auto& [name, value] : before.items()) {
    if (!after.contains(name)) patch[name] = nullptr;
  }
  for (const auto& [name, value] : after.items()) {
    const auto old = before.find(name);
    if (old != before.end() && old->is_object() && value.is_object()) {
      Json inner = DiffMergePatch(*old, value);
      if (!inner.empty()) patch[name] = std::move(inner);
    } else if (old == before.end() || *old != value) {
      patch[name] = value;
    }
  }
  return patch;
}

Json MergeElements(const Json& before, std::vector<Json> known, std::initializer_list<std::string_view> keys) {
  std::map<Json, const Json*> old;
  if (before.is_array()) {
    for (const Json& element : before) old.emplace(KeyOf(element, keys), &element);
  }
  Json merged = Json::array();
  for (Json& element : known) {
    const auto found = old.find(KeyOf(element, keys));
    if (found == old.end() || !found->second->is_object()) {
      merged.push_back(std::move(element));
      continue;
    }
    Json kept = *found->second;
    kept.update(element);
    merged.push_back(std::move(kept));
  }
  return merged;
}

}  // namespace berth::crds
