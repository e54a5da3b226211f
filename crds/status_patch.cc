// SPDX-License-Identifier: Apache-2.0
// Reads counts, and computes patches of status subresources.
#include "crds/status_patch.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "crds/merge_patch.h"

namespace berth::crds {

namespace {
constexpr std::size_t kCountLengthMax = 39;  // 2^128 has 39 digits
constexpr std::size_t kResourceVersionLengthMax = 128;
}  // namespace

Expected<ipam::Uint128> ParseCount(std::string_view text) {
  constexpr ipam::Uint128 kMax = std::numeric_limits<ipam::Uint128>::max();
  ipam::Uint128 number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return Fail(ErrorCode::kInvalid, "must be a number in decimal, is " + Quoted(text));
    }
    const auto digit = static_cast<unsigned>(c - '0');
    if (number > (kMax - digit) / 10) {
      return Fail(ErrorCode::kInvalid, "must be below 2^128, is " + Quoted(text));
    }
    number = number * 10 + digit;
  }
  return number;
}

ipam::Uint128 ReadCount(const FieldReader& fields, std::string_view key) {
  return fields.Parsed<ipam::Uint128>(key, kCountLengthMax, ParseCount).value_or(0);
}

nlohmann::json StatusOf(const nlohmann::json& object) {
  const auto status = object.find("status");
  return status != object.end() && status->is_object() ? *status : nlohmann::json::object();
}

Expected<nlohmann::json> StatusPatch(const nlohmann::json& object, const nlohmann::json& after) {
  Problem problem;
  const FieldReader document(object, problem);
  const FieldReader metadata = document.Object("metadata");
  metadata.Require("resourceVersion");
  const std::string resource_version = metadata.String("resourceVersion", kResourceVersionLengthMax);
  if (problem.error) return std::unexpected(*problem.error);
  nlohmann::json difference = DiffMergePatch(StatusOf(object), after);
  if (difference.empty()) return nlohmann::json();
  return nlohmann::json{{"metadata", {{"resourceVersion", resource_version}}}, {"status", std::move(difference)}};
}

}  // namespace berth::crds
