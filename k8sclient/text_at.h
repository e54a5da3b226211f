// SPDX-License-Identifier: Apache-2.0
// ValueAt and TextAt: read members of JSON objects that another program wrote.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace berth::k8sclient {

// null if `object` is not an object, or has no such member.
inline const nlohmann::json& ValueAt(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNull;
  const auto it = object.find(key);
  return it != object.end() ? *it : kNull;
}

// Empty if `object` is not an object, has no such member, or if the member is not a text.
inline std::string TextAt(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace berth::k8sclient
