// SPDX-License-Identifier: Apache-2.0
// What a request to ModelApi is about, and the forms of its answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "k8sclient/api.h"

namespace berth::k8sclient::testing {

[[nodiscard]] inline std::string KeyOf(const std::string& name_space, const std::string& name) {
  return name_space.empty() ? name : name_space + "/" + name;
}

// What a path names: "/api/v1/namespaces/default/pods/web" or "/apis/<group>/<version>/...".
struct Target {
  std::string collection = {};  // the kind's, of all namespaces: "/api/v1/pods"
  std::string plural = {};
  std::string group = {};       // empty: the core
  std::string name_space = {};  // empty: of a kind that has none, or all of them
  std::string name = {};        // empty: the collection
  std::string subresource = {};

  // Under which the object is kept in its collection.
  [[nodiscard]] std::string key() const { return KeyOf(name_space, name); }
};
[[nodiscard]] Target ParseTarget(const std::string& path);
// Whether the object, which is one of the collection, is in the namespace.
[[nodiscard]] bool IsIn(const Target& target, const nlohmann::json& object);
// The key of that object.
[[nodiscard]] std::string KeyOf(const nlohmann::json& object);

// Why a request is refused. The field names one, as "spec.cidr"; empty: it is about no field.
struct Refused {
  int status = 0;
  std::string reason;
  std::string message;
  std::string field = {};
  std::string cause = {};  // its reason; empty: that of an invalid field
};
[[nodiscard]] Response ToResponse(const Refused& refused, const Target& target);
[[nodiscard]] inline Refused Invalid(const std::string& field, const std::string& why) {
  return {.status = 422, .reason = "Invalid", .message = field + ": " + why, .field = field};
}
[[nodiscard]] inline Refused NotFound() { return {.status = 404, .reason = "NotFound", .message = "not found"}; }
[[nodiscard]] inline Refused BadRequest(const std::string& why) {
  return {.status = 400, .reason = "BadRequest", .message = why};
}
[[nodiscard]] inline Refused Expired() {
  return {.status = 410, .reason = "Expired", .message = "too old resource version"};
}

// Empty: it is not there.
[[nodiscard]] std::string Parameter(const Request& request, const std::string& key);
// Of a resourceVersion; nothing: it is none.
[[nodiscard]] std::optional<std::uint64_t> ToVersion(const std::string& text);

// "metadata.name=x,spec.node!=": whether all terms hold. A field that is not there is empty.
[[nodiscard]] bool IsSelected(const nlohmann::json& object, const std::string& selector);
// What cannot be selected of that collection; empty: all can.
[[nodiscard]] std::string UnselectableField(const Target& target, const std::string& selector);

// An object as the request accepts it: whole, or its metadata alone.
[[nodiscard]] nlohmann::json AcceptedForm(const Request& request, const nlohmann::json& object);

}  // namespace berth::k8sclient::testing
