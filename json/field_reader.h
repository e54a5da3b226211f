// SPDX-License-Identifier: Apache-2.0
// FieldReader, AnyCaseReader: read the fields of a JSON object that came from outside.
//
// Every read is checked for type and bound. The first one that fails is kept as an error that names object and field
// ("IPPool web: spec.ranges[0]"); all later reads return nothing, so that a parser reads field after field and looks
// for the error once, at its end. Absent and null are the same. Fields that nobody reads are ignored.
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

// For what is bounded as a whole.
inline constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

// Where the first failure is kept.
struct Problem {
  std::string object = {};  // "IPPool web", for the message; may be empty
  std::optional<Error> error = {};
};

// The two differ in three points. Of an ordered tree, FindMember (ordered_tree.h) finds a field, a value of another
// JSON type is kDecode, and texts and lists need no bounds, because ParseJson has bounded the whole. Of nlohmann::json,
// a field has one spelling, and every failure is kInvalid.
template <typename Tree>
class BasicFieldReader {
 public:
  static constexpr bool kIsOrdered = std::is_same_v<Tree, nlohmann::ordered_json>;

  // The document itself. Both must outlive this; so must a reader outlive those made from it.
  BasicFieldReader(const Tree& document, Problem& problem);

  // Whether there is such a field, other than null.
  [[nodiscard]] bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Fails if there is not.
  void Require(std::string_view key) const;
  // The value of such a field.
  [[nodiscard]] const Tree* Find(std::string_view key) const;

  // The object in that field; one without any field if it is absent.
  [[nodiscard]] BasicFieldReader Object(std::string_view key) const;
  // Empty if absent. The length counts bytes.
  [[nodiscard]] std::string String(std::string_view key, std::size_t length_max) const;
  // A number without a fraction.
  [[nodiscard]] std::optional<std::int64_t> Integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] std::vector<std::int64_t> Integers(std::string_view key, std::size_t count_max, std::int64_t min,
                                                   std::int64_t max) const;
  [[nodiscard]] bool Bool(std::string_view key, bool fallback) const;
  [[nodiscard]] std::vector<std::string> Strings(std::string_view key, std::size_t count_max,
                                                 std::size_t length_max) const;
  [[nodiscard]] std::map<std::string, std::string> StringMap(std::string_view key, std::size_t count_max,
                                                             std::size_t length_max) const;
  // Calls `read` with every entry of the object in that field.
  void ForEachString(std::string_view key, std::size_t count_max, std::size_t length_max,
                     const std::function<void(const std::string& key, const std::string& text)>& read) const;
  // Calls `read` with every object of the array in that field.
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

  // Text that `parse` makes something of; nothing if it is absent or empty.
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

  // Keeps an error about that field of this object, unless there is one already. `key` may be empty: about the object.
  void Fail(std::string_view key, std::string_view message) const;
  // Keeps an error as it is, unless there is one already.
  void Report(Error error) const;
  [[nodiscard]] bool failed() const { return problem_->error.has_value(); }
  // How messages name a field: "IPPool web: spec.ranges[0]".
  [[nodiscard]] std::string PathOf(std::string_view key) const;

 private:
  BasicFieldReader(const BasicFieldReader* parent, std::string_view key, const Tree* value, Problem& problem)
      : parent_(parent), key_(key), value_(value), problem_(&problem) {}

  // As Find, and fails if the value is no array or has more than `count_max` elements. `wanted`: "a list of strings".
  [[nodiscard]] const Tree* FindArray(std::string_view key, std::size_t count_max, std::string_view wanted) const;
  // `value` stands in that field.
  [[nodiscard]] std::optional<std::int64_t> ToInteger(std::string_view key, const Tree& value, std::int64_t min,
                                                      std::int64_t max) const;
  [[nodiscard]] const std::string* ToText(std::string_view key, const Tree& value, std::size_t length_max) const;
  void WrongType(std::string_view key, const Tree& value, std::string_view wanted) const;

  const BasicFieldReader* parent_ = nullptr;
  std::string_view key_;
  const Tree* value_;  // an object, or nullptr
  Problem* problem_;
};

// For objects of the Kubernetes API.
using FieldReader = BasicFieldReader<nlohmann::json>;
// For what is read as Go's decoder reads it.
using AnyCaseReader = BasicFieldReader<nlohmann::ordered_json>;

extern template class BasicFieldReader<nlohmann::json>;
extern template class BasicFieldReader<nlohmann::ordered_json>;

// "an object", "a string": for messages.
template <typename Tree>
[[nodiscard]] std::string_view KindOf(const Tree& value);

}  // namespace berth
