// SPDX-License-Identifier: Apache-2.0
// Typed reads; a value of another JSON type is kDecode, a number out of bounds kInvalid.
#include "cni/fields.h"

#include <utility>

namespace berth::cni {

void Fault::Report(ErrorCode code, std::string message, std::string details) {
  if (!first_) first_ = Error{.code = code, .message = std::move(message), .details = std::move(details)};
}

void Fault::Report(const Error& error, std::string_view path) {
  if (!first_) first_ = error.Within(path);
}

const JsonValue* Fields::Find(std::string_view name) const {
  return object_ == nullptr ? nullptr : FindMember(*object_, name, Nulls::kAbsent);
}

std::string Fields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void Fields::WrongType(const std::string& path, const JsonValue& value, std::string_view wanted) const {
  fault_->Report(ErrorCode::kDecode,
                 path + " is " + std::string(KindOf(value)) + ", it must be " + std::string(wanted));
}

std::string Fields::Text(std::string_view name) const {
  const JsonValue* const value = Find(name);
  if (value == nullptr) return {};
  if (const auto* const text = value->As<std::string>()) return *text;
  WrongType(PathOf(name), *value, "a string");
  return {};
}

std::vector<std::string> Fields::Texts(std::string_view name) const {
  const JsonValue* const value = Find(name);
  if (value == nullptr) return {};
  const auto* const list = value->As<JsonValue::Array>();
  if (list == nullptr) {
    WrongType(PathOf(name), *value, "a list of strings");
    return {};
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (const auto* const text = (*list)[i].As<std::string>()) {
      texts.push_back(*text);
    } else {
      WrongType(PathOf(name) + "[" + std::to_string(i) + "]", (*list)[i], "a string");
    }
  }
  return texts;
}

std::optional<std::int64_t> Fields::Integer(std::string_view name, std::int64_t min, std::int64_t max) const {
  const JsonValue* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<std::int64_t> number;
  if (const auto* const negative = value->As<std::int64_t>()) {
    number = *negative;
  } else if (const auto* const positive = value->As<std::uint64_t>()) {
    if (std::in_range<std::int64_t>(*positive)) number = static_cast<std::int64_t>(*positive);
  } else if (value->As<double>() == nullptr) {
    WrongType(PathOf(name), *value, "a number");
    return std::nullopt;
  }
  if (number && *number >= min && *number <= max) return number;
  fault_->Report(ErrorCode::kInvalid,
                 PathOf(name) + " must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return std::nullopt;
}

Fields Fields::Object(std::string_view name) const {
  const JsonValue* const value = Find(name);
  const JsonValue::Object* const object = value == nullptr ? nullptr : value->As<JsonValue::Object>();
  if (value != nullptr && object == nullptr) WrongType(PathOf(name), *value, "an object");
  return {object, PathOf(name), *fault_};
}

std::vector<Fields> Fields::Objects(std::string_view name) const {
  const JsonValue* const value = Find(name);
  return value == nullptr ? std::vector<Fields>{} : ObjectsOf(*value, name);
}

std::vector<Fields> Fields::ObjectsOf(const JsonValue& list, std::string_view name) const {
  const auto* const array = list.As<JsonValue::Array>();
  if (array == nullptr) {
    WrongType(PathOf(name), list, "a list of objects");
    return {};
  }
  std::vector<Fields> objects;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string path = PathOf(name) + "[" + std::to_string(i) + "]";
    const auto* const object = (*array)[i].As<JsonValue::Object>();
    if (object == nullptr) WrongType(path, (*array)[i], "an object");
    objects.emplace_back(object, path, *fault_);
  }
  return objects;
}

}  // namespace berth::cni
