// SPDX-License-Identifier: Apache-2.0
// EventReader: simdjson finds the values, and values that are not skipped become nlohmann::json.
#include "k8sclient/event_reader.h"

#include <simdjson.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "k8sclient/object_reader.h"

namespace berth::k8sclient {

using nlohmann::json;
namespace ondemand = simdjson::ondemand;

namespace {

const FieldRule kReadsAll;

// Convert calls itself for each level of a value, and simdjson sets no limit: without kMaxDepth, an event could fill
// the stack. json::parse reads deeper values, and does not call itself.
constexpr int kMaxDepth = 500;

json ConvertNumber(ondemand::value value) {
  const ondemand::number number = value.get_number();
  if (number.is_int64()) return number.get_int64();
  if (number.is_uint64()) return number.get_uint64();
  return number.get_double();
}

json Convert(ondemand::value value, const FieldRule& rule);

json ConvertObject(ondemand::object object, const FieldRule& rule) {
  json::object_t members;
  for (auto field : object) {
    const std::string_view name = field.unescaped_key();
    if (!rule.skipped.contains(name) && (rule.only.empty() || rule.only.contains(name))) {
      const auto found = rule.members.find(name);
      const FieldRule& of_member = found == rule.members.end() ? kReadsAll : found->second;
      members.insert_or_assign(std::string(name), Convert(field.value(), of_member));
    } else if (name == kManagedFields) {
      members.insert_or_assign(std::string(name), ManagedFieldsMarker());
    }
  }
  return members;
}

json Convert(ondemand::value value, const FieldRule& rule) {
  if (value.current_depth() > kMaxDepth) throw simdjson::simdjson_error(simdjson::DEPTH_ERROR);
  switch (value.type()) {
    case ondemand::json_type::object:
      return ConvertObject(value.get_object(), rule);
    case ondemand::json_type::array: {
      json::array_t items;
      for (auto item : value.get_array()) items.push_back(Convert(item.value(), rule));
      return items;
    }
    case ondemand::json_type::string:
      return json(std::string_view(value.get_string()));
    case ondemand::json_type::number:
      return ConvertNumber(value);
    case ondemand::json_type::boolean:
      return bool(value.get_bool());
    default:
      return nullptr;
  }
}

}  // namespace

struct EventReader::Parser {
  ondemand::parser parser;
  std::string padded;
};

EventReader::EventReader(FieldRule rule) : parser_(std::make_unique<Parser>()) {
  rule.members["metadata"].skipped.insert(std::string(kManagedFields));
  event_.members.emplace("object", std::move(rule));
}
EventReader::~EventReader() = default;

json EventReader::Read(std::string_view line) {
  parser_->padded.assign(line);
  parser_->padded.append(simdjson::SIMDJSON_PADDING, ' ');
  try {
    ondemand::document document = parser_->parser.iterate(parser_->padded.data(), line.size(), parser_->padded.size());
    return ConvertObject(document.get_object(), event_);
  } catch (const simdjson::simdjson_error&) {
    // simdjson refuses some valid JSON, such as numbers of more than 64 bits, and Convert refuses values that are
    // nested deeply.
    return json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
}

}  // namespace berth::k8sclient
