// SPDX-License-Identifier: Apache-2.0
// FieldReader: reads the fields of a JSON object that came from outside.
//
// Every read is checked for type and bound. The first one that fails is kept as an error that names object and field;
// all later reads return nothing, so that a parser reads field after field and looks for the error once, at its end.
// Absent and null are the same, as in the Kubernetes API. Fields that nobody reads are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth::crds {

// Where the first failure is kept.
struct Problem {
  std::string object;  // "IPPool web", for the message
  std::optional<Error> error = {};
};

class FieldReader {
 public:
  // The document itself. Both must outlive this; so must a reader outlive those made from it.
  FieldReader(const nlohmann::json& document, Problem& problem);

  // Whether there is such a field, other than null.
  [[nodiscard]] bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Fails if there is not.
  void Require(std::string_view key) const;

  // The object in that field; one without any field if it is absent.
  [[nodiscard]] FieldReader Object(std::string_view key) const;
  // Empty if absent. The length counts bytes.
  [[nodiscard]] std::string String(std::string_view key, std::size_t length_max) const;
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
  void ForEach(std::string_view key, std::size_t count_max, const std::function<void(const FieldReader&)>& read) const;

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
  [[nodiscard]] bool failed() const { return problem_->error.has_value(); }

 private:
  FieldReader(const FieldReader* parent, std::string_view key, const nlohmann::json* value, Problem& problem)
      : parent_(parent), key_(key), value_(value), problem_(&problem) {}

  // nullptr if absent, null, or after a failure.
  [[nodiscard]] const nlohmann::json* Find(std::string_view key) const;
  // The same, and fails if the value is of another type or has more than `count_max` elements.
  [[nodiscard]] const nlohmann::json* FindArray(std::string_view key, std::size_t count_max) const;
  // `value` stands in that field.
  [[nodiscard]] std::optional<std::int64_t> ToInteger(std::string_view key, const nlohmann::json& value,
                                                      std::int64_t min, std::int64_t max) const;
  [[nodiscard]] std::string Path(std::string_view key) const;

  const FieldReader* parent_ = nullptr;
  std::string_view key_;
  const nlohmann::json* value_;  // an object, or nullptr
  Problem* problem_;
};

}  // namespace berth::crds
