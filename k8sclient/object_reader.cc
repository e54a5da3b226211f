// SPDX-License-Identifier: Apache-2.0
// ReadObject: the parser reads every byte, but makes no values of skipped fields.
#include "k8sclient/object_reader.h"

#include <nlohmann/json.hpp>

namespace berth::k8sclient {

using nlohmann::json;

namespace {

constexpr std::string_view kMetadata = "metadata";

// Number of open objects and arrays around the value that the parser reports.
constexpr int kInObject = 1;
constexpr int kInMetadata = 2;
constexpr int kInManagedFields = 3;

}  // namespace

json ManagedFieldsMarker() { return json::array({true}); }

json ReadObject(std::string_view text) {
  if (!text.contains(kManagedFields)) return json::parse(text, nullptr, /*allow_exceptions=*/false);
  bool is_metadata = false;
  bool is_skipped = false;
  bool is_empty = true;
  const auto keep = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == kInObject) is_metadata = value == kMetadata;
    if (event == json::parse_event_t::key && depth == kInMetadata) is_skipped = is_metadata && value == kManagedFields;
    if (!is_skipped) return true;
    if (event == json::parse_event_t::key && depth > kInManagedFields) is_empty = false;
    if (event == json::parse_event_t::array_end && depth == kInMetadata && !is_empty) value = ManagedFieldsMarker();
    return event != json::parse_event_t::object_start || depth != kInManagedFields;
  };
  return json::parse(text, keep, /*allow_exceptions=*/false);
}

}  // namespace berth::k8sclient
