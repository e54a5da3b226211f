// SPDX-License-Identifier: Apache-2.0
// Checked reads from nlohmann's values: none of its accessors that throw is called without having looked at the type.
#include "crds/field_reader.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace berth::crds {

namespace {

constexpr std::size_t kNameBytesMax = 200;

using Json = nlohmann::json;

std::string WrongType(std::string_view wanted, const Json& value) {
  return "must be " + std::string(wanted) + ", is " + value.type_name();
}

std::string TooLong(std::size_t length_max, const std::string& text) {
  return "must have at most " + std::to_string(length_max) + " bytes, has " + std::to_string(text.size()) + ": " +
         Quoted(text);
}

// A name from outside inside a path.
std::string Cut(const std::string& name) { return name.substr(0, kNameBytesMax); }

}  // namespace

FieldReader::FieldReader(const Json& document, Problem& problem) : value_(&document), problem_(&problem) {
  if (document.is_object()) return;
  value_ = nullptr;
  Fail("", WrongType("an object", document));
}

void FieldReader::Require(std::string_view key) const {
  if (!failed() && Find(key) == nullptr) Fail(key, "is missing");
}

FieldReader FieldReader::Object(std::string_view key) const {
  const Json* found = Find(key);
  if (found != nullptr && !found->is_object()) {
    Fail(key, WrongType("an object", *found));
    found = nullptr;
  }
  return {this, key, found, *problem_};
}

std::string FieldReader::String(std::string_view key, std::size_t length_max) const {
  const Json* found = Find(key);
  if (found == nullptr) return {};
  const auto* text = found->get_ptr<const Json::string_t*>();
  if (text == nullptr) {
    Fail(key, WrongType("a string", *found));
    return {};
  }
  if (text->size() > length_max) {
    Fail(key, TooLong(length_max, *text));
    return {};
  }
  return *text;
}

std::optional<std::int64_t> FieldReader::Integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json* found = Find(key);
  return found == nullptr ? std::nullopt : ToInteger(key, *found, min, max);
}

std::vector<std::int64_t> FieldReader::Integers(std::string_view key, std::size_t count_max, std::int64_t min,
                                                std::int64_t max) const {
  const Json* found = FindArray(key, count_max);
  if (found == nullptr) return {};
  std::vector<std::int64_t> numbers;
  numbers.reserve(found->size());
  for (const Json& element : *found) {
    const auto number = ToInteger(key, element, min, max);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::int64_t> FieldReader::ToInteger(std::string_view key, const Json& value, std::int64_t min,
                                                   std::int64_t max) const {
  if (!value.is_number_integer()) {
    Fail(key, WrongType("an integer", value));
    return std::nullopt;
  }
  const bool too_large = value.is_number_unsigned() &&
                         value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const auto number = too_large ? 0 : value.get<std::int64_t>();
  if (too_large || number < min || number > max) {
    Fail(key, "must be " + std::to_string(min) + " to " + std::to_string(max) + ", is " + value.dump());
    return std::nullopt;
  }
  return number;
}

bool FieldReader::Bool(std::string_view key, bool fallback) const {
  const Json* found = Find(key);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) {
    Fail(key, WrongType("true or false", *found));
    return fallback;
  }
  return found->get<bool>();
}

std::vector<std::string> FieldReader::Strings(std::string_view key, std::size_t count_max,
                                              std::size_t length_max) const {
  const Json* found = FindArray(key, count_max);
  if (found == nullptr) return {};
  std::vector<std::string> texts;
  texts.reserve(found->size());
  for (const Json& element : *found) {
    const auto* text = element.get_ptr<const Json::string_t*>();
    if (text == nullptr || text->size() > length_max) {
      Fail(key, text == nullptr ? "every element " + WrongType("a string", element) : TooLong(length_max, *text));
      return {};
    }
    texts.push_back(*text);
  }
  return texts;
}

std::map<std::string, std::string> FieldReader::StringMap(std::string_view key, std::size_t count_max,
                                                          std::size_t length_max) const {
  std::map<std::string, std::string> texts;
  ForEachString(key, count_max, length_max, [&texts](const std::string& name, const std::string& text) {
    texts.emplace_hint(texts.end(), name, text);
  });
  return texts;
}

void FieldReader::ForEachString(
    std::string_view key, std::size_t count_max, std::size_t length_max,
    const std::function<void(const std::string& key, const std::string& text)>& read) const {
  const FieldReader map = Object(key);
  if (map.value_ == nullptr) return;
  if (map.value_->size() > count_max) {
    Fail(key, "must have at most " + std::to_string(count_max) + " entries, has " + std::to_string(map.value_->size()));
    return;
  }
  for (const auto& [name, value] : map.value_->items()) {
    const auto* text = value.get_ptr<const Json::string_t*>();
    if (text == nullptr) {
      map.Fail(Cut(name), WrongType("a string", value));
    } else if (text->size() > length_max || name.size() > length_max) {
      map.Fail(Cut(name), TooLong(length_max, text->size() > length_max ? *text : name));
    } else {
      read(name, *text);
    }
    if (failed()) return;
  }
}

void FieldReader::ForEach(std::string_view key, std::size_t count_max,
                          const std::function<void(const FieldReader&)>& read) const {
  const Json* found = FindArray(key, count_max);
  if (found == nullptr) return;
  std::size_t index = 0;
  for (const Json& element : *found) {
    const std::string name = std::string(key) + '[' + std::to_string(index++) + ']';
    if (!element.is_object()) Fail(name, WrongType("an object", element));
    if (failed()) return;
    read(FieldReader(this, name, &element, *problem_));
  }
}

void FieldReader::Fail(std::string_view key, std::string_view message) const {
  if (failed()) return;
  std::string text = problem_->object;
  const std::string path = Path(key);
  if (!path.empty()) text += (text.empty() ? "" : ": ") + path;
  text += text.empty() ? "" : ": ";
  text += message;
  problem_->error = Error{.code = ErrorCode::kInvalid, .message = std::move(text)};
}

const Json* FieldReader::Find(std::string_view key) const {
  if (value_ == nullptr || failed()) return nullptr;
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const Json* FieldReader::FindArray(std::string_view key, std::size_t count_max) const {
  const Json* found = Find(key);
  if (found == nullptr) return nullptr;
  if (!found->is_array()) {
    Fail(key, WrongType("an array", *found));
    return nullptr;
  }
  if (found->size() > count_max) {
    Fail(key, "must have at most " + std::to_string(count_max) + " elements, has " + std::to_string(found->size()));
    return nullptr;
  }
  return found;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as readers are made from one another in the code
std::string FieldReader::Path(std::string_view key) const {
  std::string path = parent_ == nullptr ? std::string() : parent_->Path(key_);
  if (!path.empty() && !key.empty()) path += '.';
  path += key;
  return path;
}

}  // namespace berth::crds
