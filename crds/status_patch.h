// SPDX-License-Identifier: Apache-2.0
// Code that the statuses of pools and spaces share: decimal counts, and the patch of a status subresource.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ipam/address.h"
#include "json/field_reader.h"

namespace berth::crds {

// A decimal number without sign, less than 2^128; "" is 0. Errors: kInvalid, with the quoted text.
[[nodiscard]] Expected<ipam::Uint128> ParseCount(std::string_view text);

// The count in a field, like ParseCount; 0 if the field is absent.
[[nodiscard]] ipam::Uint128 ReadCount(const FieldReader& fields, std::string_view key);

// The object's status; {} if it has none yet.
[[nodiscard]] nlohmann::json StatusOf(const nlohmann::json& object);

// The merge patch that changes the object's status into `after`, with the object's resourceVersion; null if nothing
// differs.
// Errors: kInvalid if the object has no resourceVersion.
[[nodiscard]] Expected<nlohmann::json> StatusPatch(const nlohmann::json& object, const nlohmann::json& after);

// Prefixes, ranges or addresses as a list of texts.
template <typename List>
[[nodiscard]] std::vector<std::string> TextsOf(const List& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.push_back(value.ToString());
  return texts;
}

}  // namespace berth::crds
