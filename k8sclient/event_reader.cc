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

const FieldNames kNoFieldNames;

SkippedFields WithManagedFields(SkippedFields skipped) {
  skipped["metadata"].insert(std::string(kManagedFields));
  return skipped;
}

json ConvertNumber(ondemand::value value) {
  const ondemand::number number = value.get_number();
  if (number.is_int64()) return number.get_int64();
  if (number.is_uint64()) return number.get_uint64();
  return number.get_double();
}

template <typename ConvertMember>
json ConvertMembers(ondemand::object object, const FieldNames& skipped, const ConvertMember& convert) {
  json::object_t members;
  for (auto field : object) {
    const std::string_view name = field.unescaped_key();
    if (!skipped.contains(name)) {
      members.insert_or_assign(std::string(name), convert(name, field.value()));
    } else if (name == kManagedFields) {
      members.insert_or_assign(std::string(name), ManagedFieldsMarker());
    }
  }
  return members;
}

json Convert(ondemand::value value, const FieldNames& skipped) {
  switch (value.type()) {
    case ondemand::json_type::object:
      return ConvertMembers(value.get_object(), skipped, [](std::string_view /*name*/, ondemand::value member) {
        return Convert(member, kNoFieldNames);
      });
    case ondemand::json_type::array: {
      json::array_t items;
      for (auto item : value.get_array()) items.push_back(Convert(item.value(), kNoFieldNames));
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

// Converts only the members in `wanted` of each object in an array.
json ConvertItems(ondemand::value value, const FieldNames& wanted) {
  if (value.type() != ondemand::json_type::array) return Convert(value, kNoFieldNames);
  json::array_t items;
  for (auto item : value.get_array()) {
    json::object_t members;
    for (auto field : item.get_object()) {
      const std::string_view name = field.unescaped_key();
      if (wanted.contains(name)) members.insert_or_assign(std::string(name), Convert(field.value(), kNoFieldNames));
    }
    items.emplace_back(std::move(members));
  }
  return items;
}

}  // namespace

struct EventReader::Parser {
  ondemand::parser parser;
  std::string padded;
};

EventReader::EventReader(SkippedFields skipped, ItemFields items)
    : skipped_(WithManagedFields(std::move(skipped))), items_(std::move(items)), parser_(std::make_unique<Parser>()) {}
EventReader::~EventReader() = default;

json EventReader::Read(std::string_view line) {
  parser_->padded.assign(line);
  parser_->padded.append(simdjson::SIMDJSON_PADDING, ' ');
  const auto convert_section = [this](std::string_view name, ondemand::value section) {
    const auto found = skipped_.find(name);
    const FieldNames& skipped = found == skipped_.end() ? kNoFieldNames : found->second;
    if (items_.empty() || section.type() != ondemand::json_type::object) return Convert(section, skipped);
    return ConvertMembers(section.get_object(), skipped, [this](std::string_view member, ondemand::value value) {
      const auto items = items_.find(member);
      return items == items_.end() ? Convert(value, kNoFieldNames) : ConvertItems(value, items->second);
    });
  };
  try {
    ondemand::document document = parser_->parser.iterate(parser_->padded.data(), line.size(), parser_->padded.size());
    return ConvertMembers(document.get_object(), kNoFieldNames, [&](std::string_view name, ondemand::value member) {
      if (name != "object") return Convert(member, kNoFieldNames);
      return ConvertMembers(member.get_object(), kNoFieldNames, convert_section);
    });
  } catch (const simdjson::simdjson_error&) {
    // simdjson refuses some valid JSON, such as numbers of more than 64 bits.
    return json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
}

}  // namespace berth::k8sclient
