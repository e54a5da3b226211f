// SPDX-License-Identifier: Apache-2.0
// ReadObject skips values in the parser of the JSON library. ListReader finds where items begin and end.
#include "k8sclient/object_reader.h"

#include <nlohmann/json.hpp>

#include "k8sclient/text_at.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "metadata";

// Number of open objects and arrays around the value that the parser reports.
constexpr int kInObject = 1;
constexpr int kInMetadata = 2;
constexpr int kInManagedFields = 3;

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::size_t kQuotedMax = 200;

// Number of open braces and brackets: inside the list's own object, and inside the array of items.
constexpr std::size_t kInList = 1;
constexpr std::size_t kInItems = 2;

std::string_view WithoutBlankEnd(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlank) + 1);  // npos + 1 is 0
}

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

bool ListReader::Keep(std::string_view text) {
  std::string& kept = in_items_ ? item_ : envelope_;
  if (text.size() > bytes_max_ - kept.size()) {
    problem_ = std::string(in_items_ ? "an item of the list" : "the part of the answer outside the list's items") +
               " is larger than " + std::to_string(bytes_max_) + " bytes";
    return false;
  }
  kept += text;
  return true;
}

bool ListReader::IsAtItems() const {
  std::string_view before = WithoutBlankEnd(envelope_);
  if (!before.ends_with(':')) return false;
  before = WithoutBlankEnd(before.substr(0, before.size() - 1));
  return before.ends_with(R"("items")") && !before.ends_with(R"(\"items")");  // with a backslash, it ends a longer key
}

bool ListReader::EndItem(bool is_last) {
  const bool is_blank = item_.find_first_not_of(kBlank) == std::string::npos;
  if (is_blank && is_last && !any_item_) return true;
  json item = ReadObject(item_);
  if (item.is_discarded()) {
    problem_ = "an item of the list is not JSON: \"" + item_.substr(0, kQuotedMax) + "\"";
    return false;
  }
  item_.clear();
  any_item_ = true;
  take_(std::move(item));
  return true;
}

bool ListReader::Feed(std::string_view piece) {
  if (!problem_.empty()) return false;
  std::size_t kept = 0;  // characters of the piece that have been kept
  for (std::size_t at = 0; at < piece.size(); ++at) {
    const char c = piece[at];
    if (in_string_) {
      in_string_ = c != '"' || escaped_;
      escaped_ = c == '\\' && !escaped_;
      continue;
    }
    if (c == '"') in_string_ = true;
    const bool closes = c == '}' || c == ']';
    if (in_items_ && depth_ == kInItems && (c == ',' || closes)) {
      if (!Keep(piece.substr(kept, at - kept)) || !EndItem(closes)) return false;
      in_items_ = !closes;
      kept = closes ? at : at + 1;
    }
    if (closes && depth_ > 0) --depth_;
    if (c != '{' && c != '[') continue;
    ++depth_;
    if (c == '{' || depth_ != kInList + 1) continue;
    // An array begins in the list's own object.
    if (!Keep(piece.substr(kept, at - kept))) return false;
    kept = at;
    if (!IsAtItems()) continue;
    if (!Keep("[")) return false;
    kept = at + 1;
    in_items_ = true;
    any_item_ = false;
  }
  return Keep(piece.substr(kept));
}

Expected<ListReader::Summary> ListReader::End() const {
  if (!problem_.empty()) return Fail(ErrorCode::kInternal, problem_);
  const json list = json::parse(envelope_, nullptr, /*allow_exceptions=*/false);
  if (!list.is_object()) {
    return Fail(ErrorCode::kInternal,
                "the answer is not a JSON object: \"" + envelope_.substr(0, kQuotedMax) + "\"",
                kNoApiServer);
  }
  const json& items = ValueAt(list, "items");
  const json& metadata = ValueAt(list, "metadata");
  if (!list.contains("items") || !(items.is_array() || items.is_null()) || !metadata.is_object()) {
    return Fail(ErrorCode::kInternal, "the answer is not a list");
  }
  // Feed did not find these items, because no API server writes the key "items" like this.
  if (!items.empty()) return Fail(ErrorCode::kInternal, "the answer is a list in an unknown form");
  return Summary{.resource_version = TextAt(metadata, "resourceVersion"),
                 .continue_token = TextAt(metadata, "continue")};
}

}  // namespace berth::k8sclient
