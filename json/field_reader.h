// SPDX-License-Identifier: Apache-2.0
// FieldReader, AnyCaseReader: read the fields of a JSON object that came from outside.
//
// Each read checks the type and limits of a value. The reader keeps the first failure as an error that names object and
// field ("IPPool web: spec.ranges[0]"), and all later reads return nothing. A parser can therefore read all fields, and
// look for the error once at its end. A null value counts as absent. Fields that the parser does not read are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth {

// No limit: for texts and lists in a document whose size is limited as a whole.
inline constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

// Keeps the first failure.
struct Problem {
  std::string object = {};  // "IPPool web", for the message; may be empty
  std::optional<Error> error = {};
};

// A reader of nlohmann::ordered_json and a reader of nlohmann::json differ in three points. A reader of an ordered tree
// finds a field in any letter case (FindMember in ordered_tree.h), reports a value of the wrong JSON type as kDecode,
// and needs no limits for texts and lists, because ParseJson has limited the whole document. A reader of a
// nlohmann::json compares the letter case of names, reports every failure as kInvalid, and has limits for each read.
template <typename Tree>
class BasicFieldReader {
 public:
  static constexpr bool kIsOrdered = std::is_same_v<Tree, nlohmann::ordered_json>;

  // Reads `document`. `document` and `problem` must outlive this reader; a reader must outlive the readers made from
  // it.
  BasicFieldReader(const Tree& document, Problem& problem);

  // True if the object has the field, with a value other than null.
  [[nodiscard]] bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Fails if the object does not have the field.
  void Require(std::string_view key) const;
  // The field's value; nullptr: absent or null.
  [[nodiscard]] const Tree* Find(std::string_view key) const;

  // A reader of the object in the field; if the field is absent, a reader of an object without fields.
  [[nodiscard]] BasicFieldReader Object(std::string_view key) const;
  // The string in the field; empty if absent. `length_max` in bytes.
  [[nodiscard]] std::string String(std::string_view key, std::size_t length_max) const;
  // The whole number in the field, from `min` to `max`; nothing if absent.
  [[nodiscard]] std::optional<std::int64_t> Integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] std::vector<std::int64_t> Integers(std::string_view key, std::size_t count_max, std::int64_t min,
                                                   std::int64_t max) const;
  [[nodiscard]] bool Bool(std::string_view key, bool fallback) const;
  [[nodiscard]] std::vector<std::string> Strings(std::string_view key, std::size_t count_max,
                                                 std::size_t length_max) const;
  [[nodiscard]] std::map<std::string, std::string> StringMap(std::string_view key, std::size_t count_max,
                                                             std::size_t length_max) const;
  // Calls `read` with every member of the object in the field.
  void ForEachString(std::string_view key, std::size_t count_max, std::size_t length_max,
                     const std::function<void(const std::string& key, const std::string& text)>& read) const;
  // Calls `read` with every object of the list in the field.
  void ForEach(std::string_view key, std::size_t count_max,
               const std::function<void(const BasicFieldReader&)>& read) const;

  [[nodiscard]] std::string String(std::string_view key) const
    requires kIsOrdered
  {
    return String(key, kUnbounded);
  }
  [[nodiscard]] std::vector<std::string> Strings(std::string_view key) const
    requires kIsOrdered
  {
    return Strings(key, kUnbounded, kUnbounded);
  }
  void ForEach(std::string_view key, const std::function<void(const BasicFieldReader&)>& read) const
    requires kIsOrdered
  {
    ForEach(key, kUnbounded, read);
  }

  // The string in the field, converted by `parse`; nothing if the string is absent or empty.
  template <typename T>
  [[nodiscard]] std::optional<T> Parsed(std::string_view key, std::size_t length_max,
                                        Expected<T> (*parse)(std::string_view)) const {
    const std::string text = String(key, length_max);
    if (text.empty()) return std::nullopt;
    auto value = parse(text);
    if (value) return *value;
    Fail(key, value.error().message);
    return std::nullopt;
  }

  template <typename T>
  [[nodiscard]] std::vector<T> ParsedList(std::string_view key, std::size_t count_max, std::size_t length_max,
                                          Expected<T> (*parse)(std::string_view)) const {
    std::vector<T> values;
    for (const std::string& text : Strings(key, count_max, length_max)) {
      auto value = parse(text);
      if (!value) {
        Fail(key, value.error().message);
        return {};
      }
      values.push_back(*value);
    }
    return values;
  }

  // Keeps an error about a field of this object, unless there is an error already. Empty `key`: about the object.
  void Fail(std::string_view key, std::string_view message) const;
  // Keeps `error` unchanged, unless there is an error already.
  void Report(Error error) const;
  [[nodiscard]] bool failed() const { return problem_->error.has_value(); }
  // The name of a field in messages: "IPPool web: spec.ranges[0]".
  [[nodiscard]] std::string PathOf(std::string_view key) const;

 private:
  BasicFieldReader(const BasicFieldReader* parent, std::string_view key, const Tree* value, Problem& problem)
      : parent_(parent), key_(key), value_(value), problem_(&problem) {}

  // Like Find, but fails if the value is not a list or has more than `count_max` elements. `wanted`: for example "a
  // list of strings".
  [[nodiscard]] const Tree* FindArray(std::string_view key, std::size_t count_max, std::string_view wanted) const;
  // `value`: the value of the field `key`, or of an element of it.
  [[nodiscard]] std::optional<std::int64_t> ToInteger(std::string_view key, const Tree& value, std::int64_t min,
                                                      std::int64_t max) const;
  [[nodiscard]] const std::string* ToText(std::string_view key, const Tree& value, std::size_t length_max) const;
  void WrongType(std::string_view key, const Tree& value, std::string_view wanted) const;

  const BasicFieldReader* parent_ = nullptr;
  std::string_view key_;
  const Tree* value_;  // an object, or nullptr
  Problem* problem_;
};

// FieldReader reads objects of the Kubernetes API.
using FieldReader = BasicFieldReader<nlohmann::json>;
// AnyCaseReader reads documents as Go's decoder (encoding/json) reads them.
using AnyCaseReader = BasicFieldReader<nlohmann::ordered_json>;

extern template class BasicFieldReader<nlohmann::json>;
extern template class BasicFieldReader<nlohmann::ordered_json>;

// "an object", "a string", ...: for messages.
template <typename Tree>
[[nodiscard]] std::string_view KindOf(const Tree& value);

}  // namespace berth
