// SPDX-License-Identifier: Apache-2.0
// What the statuses of pools and spaces have in common: decimal counts, and the patch of a status subresource.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ipam/address.h"
#include "json/field_reader.h"

namespace berth::crds {

// A number in decimal without sign, below 2^128. Errors: kInvalid, with the text quoted.
[[nodiscard]] Expected<ipam::Uint128> ParseCount(std::string_view text);

// A count in a field, as ParseCount; 0 if it is absent.
[[nodiscard]] ipam::Uint128 ReadCount(const FieldReader& fields, std::string_view key);

// The object's status, {} if it has none yet.
[[nodiscard]] nlohmann::json StatusOf(const nlohmann::json& object);

// The merge patch that makes the object's status `after`, with the object's resourceVersion; null if nothing differs.
// Errors: kInvalid if the object has no resourceVersion.
[[nodiscard]] Expected<nlohmann::json> StatusPatch(const nlohmann::json& object, const nlohmann::json& after);

// Prefixes, ranges or addresses as lists of texts.
template <typename List>
[[nodiscard]] std::vector<std::string> TextsOf(const List& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.push_back(value.ToString());
  return texts;
}

}  // namespace berth::crds
