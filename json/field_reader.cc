// SPDX-License-Identifier: Apache-2.0
// FieldReader checks the type of a value before it calls an accessor of nlohmann/json that could throw.
#include "json/field_reader.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "json/ordered_tree.h"

namespace berth {

namespace {

constexpr std::size_t kNameBytesMax = 200;

// Shortens a name from outside for use in a path.
std::string_view Cut(std::string_view name) { return name.substr(0, kNameBytesMax); }

std::string TooMany(std::string_view what, std::size_t count_max, std::size_t count) {
  return "must have at most " + std::to_string(count_max) + " " + std::string(what) + ", has " + std::to_string(count);
}

}  // namespace

template <typename Tree>
std::string_view KindOf(const Tree& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return "a number";
}

template <typename Tree>
BasicFieldReader<Tree>::BasicFieldReader(const Tree& document, Problem& problem)
    : value_(&document), problem_(&problem) {
  if (document.is_object()) return;
  value_ = nullptr;
  WrongType("", document, "an object");
}

template <typename Tree>
const Tree* BasicFieldReader<Tree>::Find(std::string_view key) const {
  if (value_ == nullptr || failed()) return nullptr;
  if constexpr (kIsOrdered) {
    return FindMember(*value_, key, Nulls::kAbsent);
  } else {
    const auto found = value_->find(key);
    return found == value_->end() || found->is_null() ? nullptr : &*found;
  }
}

template <typename Tree>
void BasicFieldReader<Tree>::Require(std::string_view key) const {
  if (!failed() && Find(key) == nullptr) Fail(key, "is missing");
}

template <typename Tree>
BasicFieldReader<Tree> BasicFieldReader<Tree>::Object(std::string_view key) const {
  const Tree* found = Find(key);
  if (found != nullptr && !found->is_object()) {
    WrongType(key, *found, "an object");
    found = nullptr;
  }
  return {this, key, found, *problem_};
}

template <typename Tree>
std::string BasicFieldReader<Tree>::String(std::string_view key, std::size_t length_max) const {
  const Tree* const found = Find(key);
  const std::string* const text = found == nullptr ? nullptr : ToText(key, *found, length_max);
  return text == nullptr ? std::string() : *text;
}

template <typename Tree>
const std::string* BasicFieldReader<Tree>::ToText(std::string_view key, const Tree& value,
                                                  std::size_t length_max) const {
  const auto* const text = value.template get_ptr<const std::string*>();
  if (text == nullptr) {
    WrongType(key, value, "a string");
  } else if (text->size() > length_max) {
    Fail(key, TooMany("bytes", length_max, text->size()) + ": " + Quoted(*text));
    return nullptr;
  }
  return text;
}

template <typename Tree>
std::optional<std::int64_t> BasicFieldReader<Tree>::Integer(std::string_view key, std::int64_t min,
                                                            std::int64_t max) const {
  const Tree* const found = Find(key);
  return found == nullptr ? std::nullopt : ToInteger(key, *found, min, max);
}

template <typename Tree>
std::optional<std::int64_t> BasicFieldReader<Tree>::ToInteger(std::string_view key, const Tree& value, std::int64_t min,
                                                              std::int64_t max) const {
  if (!value.is_number()) {
    WrongType(key, value, "a number");
    return std::nullopt;
  }
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || std::in_range<std::int64_t>(value.template get<std::uint64_t>()));
  const std::int64_t number = fits ? value.template get<std::int64_t>() : 0;
  if (fits && number >= min && number <= max) return number;
  Report({.code = ErrorCode::kInvalid,
          .message = PathOf(key) + " must be a whole number from " + std::to_string(min) + " to " +
                     std::to_string(max) + ", is " + value.dump()});
  return std::nullopt;
}

template <typename Tree>
std::vector<std::int64_t> BasicFieldReader<Tree>::Integers(std::string_view key, std::size_t count_max,
                                                           std::int64_t min, std::int64_t max) const {
  const Tree* const found = FindArray(key, count_max, "a list of numbers");
  if (found == nullptr) return {};
  std::vector<std::int64_t> numbers;
  numbers.reserve(found->size());
  for (const Tree& element : *found) {
    const auto number = ToInteger(key, element, min, max);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

template <typename Tree>
bool BasicFieldReader<Tree>::Bool(std::string_view key, bool fallback) const {
  const Tree* const found = Find(key);
  if (found == nullptr) return fallback;
  if (found->is_boolean()) return found->template get<bool>();
  WrongType(key, *found, "true or false");
  return fallback;
}

template <typename Tree>
std::vector<std::string> BasicFieldReader<Tree>::Strings(std::string_view key, std::size_t count_max,
                                                         std::size_t length_max) const {
  const Tree* const found = FindArray(key, count_max, "a list of strings");
  if (found == nullptr) return {};
  std::vector<std::string> texts;
  texts.reserve(found->size());
  for (const Tree& element : *found) {
    const std::string name = std::string(key) + '[' + std::to_string(texts.size()) + ']';
    const std::string* const text = ToText(name, element, length_max);
    if (text == nullptr) return {};
    texts.push_back(*text);
  }
  return texts;
}

template <typename Tree>
std::map<std::string, std::string> BasicFieldReader<Tree>::StringMap(std::string_view key, std::size_t count_max,
                                                                     std::size_t length_max) const {
  std::map<std::string, std::string> texts;
  ForEachString(key, count_max, length_max, [&texts](const std::string& name, const std::string& text) {
    texts.insert_or_assign(texts.end(), name, text);
  });
  return texts;
}

template <typename Tree>
void BasicFieldReader<Tree>::ForEachString(
    std::string_view key, std::size_t count_max, std::size_t length_max,
    const std::function<void(const std::string& key, const std::string& text)>& read) const {
  const BasicFieldReader map = Object(key);
  if (map.value_ == nullptr) return;
  if (map.value_->size() > count_max) return Fail(key, TooMany("entries", count_max, map.value_->size()));
  for (const auto& [name, value] : map.value_->items()) {
    const std::string* const text = map.ToText(Cut(name), value, length_max);
    if (name.size() > length_max) map.Fail(Cut(name), TooMany("bytes", length_max, name.size()) + ": " + Quoted(name));
    if (failed()) return;
    read(name, *text);
    if (failed()) return;
  }
}

template <typename Tree>
void BasicFieldReader<Tree>::ForEach(std::string_view key, std::size_t count_max,
                                     const std::function<void(const BasicFieldReader&)>& read) const {
  const Tree* const found = FindArray(key, count_max, "a list of objects");
  if (found == nullptr) return;
  const auto name_of = [key](std::size_t index) { return std::string(key) + '[' + std::to_string(index) + ']'; };
  // First check the types of all elements, so that a wrong type is reported before errors inside an element.
  for (std::size_t i = 0; i < found->size(); ++i) {
    if (!(*found)[i].is_object()) return WrongType(name_of(i), (*found)[i], "an object");
  }
  for (std::size_t i = 0; i < found->size() && !failed(); ++i) {
    const std::string name = name_of(i);
    read(BasicFieldReader(this, name, &(*found)[i], *problem_));
  }
}

template <typename Tree>
const Tree* BasicFieldReader<Tree>::FindArray(std::string_view key, std::size_t count_max,
                                              std::string_view wanted) const {
  const Tree* const found = Find(key);
  if (found == nullptr) return nullptr;
  if (!found->is_array()) {
    WrongType(key, *found, wanted);
  } else if (found->size() > count_max) {
    Fail(key, TooMany("elements", count_max, found->size()));
  }
  return failed() ? nullptr : found;
}

template <typename Tree>
void BasicFieldReader<Tree>::Report(Error error) const {
  if (!failed()) problem_->error = std::move(error);
}

template <typename Tree>
void BasicFieldReader<Tree>::Fail(std::string_view key, std::string_view message) const {
  if (failed()) return;
  const std::string path = PathOf(key);
  Report({.code = ErrorCode::kInvalid, .message = path + (path.empty() ? "" : ": ") + std::string(message)});
}

template <typename Tree>
void BasicFieldReader<Tree>::WrongType(std::string_view key, const Tree& value, std::string_view wanted) const {
  const std::string path = PathOf(key);
  Report({.code = kIsOrdered ? ErrorCode::kDecode : ErrorCode::kInvalid,
          .message = (path.empty() ? "the object" : path) + " is " + std::string(KindOf(value)) + ", it must be " +
                     std::string(wanted)});
}

template <typename Tree>
std::string BasicFieldReader<Tree>::PathOf(std::string_view key) const {
  std::string path = parent_ == nullptr ? problem_->object : parent_->PathOf(key_);
  if (!path.empty() && !key.empty()) path += parent_ == nullptr ? ": " : ".";
  path += key;
  return path;
}

template class BasicFieldReader<nlohmann::json>;
template class BasicFieldReader<nlohmann::ordered_json>;
template std::string_view KindOf(const nlohmann::json& value);
template std::string_view KindOf(const nlohmann::ordered_json& value);

}  // namespace berth
