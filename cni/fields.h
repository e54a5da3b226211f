// SPDX-License-Identifier: Apache-2.0
// Fields: the members of one JSON object, read by name and type.
//
// A reader of many fields checks once, at the end, whether something was wrong: the first fault is kept, with the
// path of the field ("ipam.routes[0].dst"), and what is read after it does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cni/json_value.h"

namespace berth::cni {

class Fault {
 public:
  // Keeps the first.
  void Report(ErrorCode code, std::string message, std::string details = {});
  void Report(const Error& error, std::string_view path);
  [[nodiscard]] const std::optional<Error>& first() const { return first_; }

 private:
  std::optional<Error> first_;
};

// Views: neither the tree nor the fault may die before it.
class Fields {
 public:
  // `object` may be null: then every field is absent. `path` is the object's own, "" at the top.
  Fields(const JsonValue::Object* object, std::string path, Fault& fault)
      : object_(object), path_(std::move(path)), fault_(&fault) {}

  // The value of a member that is neither absent nor null.
  [[nodiscard]] const JsonValue* Find(std::string_view name) const;
  [[nodiscard]] bool Has(std::string_view name) const { return Find(name) != nullptr; }

  // "" where absent.
  [[nodiscard]] std::string Text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> Texts(std::string_view name) const;
  // A number without a fraction within the bounds.
  [[nodiscard]] std::optional<std::int64_t> Integer(std::string_view name, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] Fields Object(std::string_view name) const;
  [[nodiscard]] std::vector<Fields> Objects(std::string_view name) const;
  // The same of a list that was looked up before: GC's may be null.
  [[nodiscard]] std::vector<Fields> ObjectsOf(const JsonValue& list, std::string_view name) const;

  // "ipam.pools": how messages name a member.
  [[nodiscard]] std::string PathOf(std::string_view name) const;

  [[nodiscard]] const JsonValue::Object* object() const { return object_; }
  [[nodiscard]] Fault& fault() const { return *fault_; }

 private:
  void WrongType(const std::string& path, const JsonValue& value, std::string_view wanted) const;

  const JsonValue::Object* object_;
  std::string path_;
  Fault* fault_;
};

}  // namespace berth::cni
