// SPDX-License-Identifier: Apache-2.0
// TextAt: reads a text from a JSON object that another program wrote.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace berth::k8sclient {

// Empty if the object has no such member, or if the member is not a text.
inline std::string TextAt(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace berth::k8sclient
