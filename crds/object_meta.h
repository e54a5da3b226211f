// SPDX-License-Identifier: Apache-2.0
// ObjectMeta: the fields of metadata that berth uses, and patches that change only metadata.
//
// Anyone who may change an object may write other fields of metadata. berth does not read these fields, so they cannot
// make an object unreadable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth::crds {

struct ObjectMeta {
  std::string name = {};
  std::string name_space = {};  // empty for cluster-scoped kinds
  std::string uid = {};
  std::string resource_version = {};
  std::int64_t generation = 0;
  std::string deletion_timestamp = {};       // RFC 3339; empty: not being deleted
  std::vector<std::string> finalizers = {};  // all finalizers: a patch that removes one must contain the others

  [[nodiscard]] bool deleting() const { return !deletion_timestamp.empty(); }
  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

// Parses metadata of any kind of object, also of a PartialObjectMetadata and of an item of a list. `kind` is for
// messages.
// Errors: kInvalid, with kind, name and field.
[[nodiscard]] Expected<ObjectMeta> ParseObjectMeta(const nlohmann::json& object, std::string_view kind);

// Parses metadata.annotations. Errors: like ParseObjectMeta.
[[nodiscard]] Expected<std::map<std::string, std::string>> ParseAnnotations(const nlohmann::json& object,
                                                                            std::string_view kind);

// metadata.name and metadata.labels of any object, without errors: empty if they are missing or have another type.
[[nodiscard]] std::string NameOf(const nlohmann::json& object);
[[nodiscard]] std::map<std::string, std::string> LabelsOf(const nlohmann::json& object);

// The merge patch that sets only the finalizers, if the object has not changed since it was read.
// Requires: before.resource_version is not empty.
[[nodiscard]] nlohmann::json FinalizersPatch(const ObjectMeta& before, const std::vector<std::string>& finalizers);

}  // namespace berth::crds
