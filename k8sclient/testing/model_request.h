// SPDX-License-Identifier: Apache-2.0
// Parses a request to ModelApi, and builds the parts of its answer.
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

// The parts of a path such as "/api/v1/namespaces/default/pods/web" or "/apis/<group>/<version>/...".
struct Target {
  std::string collection = {};  // of all namespaces: "/api/v1/pods"
  std::string plural = {};
  std::string group = {};       // empty: the core group
  std::string name_space = {};  // empty: a kind without namespaces, or all namespaces
  std::string name = {};        // empty: the collection
  std::string subresource = {};

  // The object's key in its collection.
  [[nodiscard]] std::string key() const { return KeyOf(name_space, name); }
};
[[nodiscard]] Target ParseTarget(const std::string& path);
// True if an object of the collection is in the target's namespace.
[[nodiscard]] bool IsIn(const Target& target, const nlohmann::json& object);
// The object's key in its collection.
[[nodiscard]] std::string KeyOf(const nlohmann::json& object);

// Why the server refuses a request. `field` is the refused field, such as "spec.cidr"; empty: no single field.
struct Refused {
  int status = 0;
  std::string reason;
  std::string message;
  std::string field = {};
  std::string cause = {};  // the reason of the cause; empty: FieldValueInvalid
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

// The value of a query parameter; empty: the query has no such parameter.
[[nodiscard]] std::string Parameter(const Request& request, const std::string& key);
// The number in a resourceVersion; nothing: the text is not a number.
[[nodiscard]] std::optional<std::uint64_t> ToVersion(const std::string& text);

// True if all terms of a selector hold, such as "metadata.name=x,spec.node!=". A missing field counts as empty.
[[nodiscard]] bool IsSelected(const nlohmann::json& object, const std::string& selector);
// The first field of the selector that the collection cannot select by; empty: none.
[[nodiscard]] std::string UnselectableField(const Target& target, const std::string& selector);

// The object in the form that the request accepts: whole, or only its metadata.
[[nodiscard]] nlohmann::json AcceptedForm(const Request& request, const nlohmann::json& object);

}  // namespace berth::k8sclient::testing
