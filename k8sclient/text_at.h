// SPDX-License-Identifier: Apache-2.0
// A text in an object that somebody else wrote.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace berth::k8sclient {

// Empty unless the object has such a member, and it is a text.
inline std::string TextAt(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace berth::k8sclient
