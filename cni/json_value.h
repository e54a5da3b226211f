// SPDX-License-Identifier: Apache-2.0
// JsonValue: JSON text as a tree, within bounds, with the way Go's decoder looks up the fields of a structure.
//
// A tree of our own because the network configuration needs what common ones do not keep: the order of members whose
// names differ in letter case only ("the last one wins"), and a depth and a number of values that nobody can exceed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace berth::cni {

struct JsonMember;

struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;  // in the order of the text, duplicates included
  // Numbers: integers as the 64-bit type that holds them, else double.
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  JsonValue();
  // NOLINTNEXTLINE(misc-explicit-constructor): texts, numbers and lists are JSON as they stand
  JsonValue(Value of);
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  Value value;

  [[nodiscard]] bool IsNull() const { return std::holds_alternative<std::nullptr_t>(value); }
  template <typename T>
  [[nodiscard]] const T* As() const {
    return std::get_if<T>(&value);
  }
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

// Here and not in the class, because a list of members can be made, copied and destroyed only where JsonMember is
// known.
inline JsonValue::JsonValue() : value(nullptr) {}
inline JsonValue::JsonValue(Value of) : value(std::move(of)) {}
inline JsonValue::JsonValue(const JsonValue&) = default;
inline JsonValue::JsonValue(JsonValue&&) noexcept = default;
inline JsonValue& JsonValue::operator=(const JsonValue&) = default;
inline JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
inline JsonValue::~JsonValue() = default;

// The last member of that name in any letter case. kAbsent: members that are null are passed over.
// Null pointer: there is none.
enum class Nulls : std::uint8_t { kAbsent, kPresent };
[[nodiscard]] const JsonValue* FindMember(const JsonValue::Object& object, std::string_view name, Nulls nulls);

// "an object", "a string": for messages.
[[nodiscard]] std::string_view KindOf(const JsonValue& value);

inline constexpr int kJsonDepthMax = 256;
inline constexpr std::size_t kJsonValuesMax = 1'000'000;

// Parses one JSON text. Of an object at the top only the members named in `wanted` (in any letter case) are kept; what
// is skipped is checked all the same.
// Errors: kDecode: not JSON (RFC 8259, without a byte order mark), bytes after it, NUL bytes, invalid UTF-8, deeper
// than kJsonDepthMax, more than kJsonValuesMax values kept.
[[nodiscard]] Expected<JsonValue> ParseJson(std::string_view text, std::span<const std::string_view> wanted);

}  // namespace berth::cni
