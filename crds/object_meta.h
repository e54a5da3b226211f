// SPDX-License-Identifier: Apache-2.0
// ObjectMeta: what berth uses of what every Kubernetes object says about itself, and patches that concern nothing else.
//
// Anyone who may change an object may fill its metadata with what berth has no use for. None of that is looked at, so
// that it cannot make an object unreadable.
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
  std::vector<std::string> finalizers = {};  // all: a patch that takes one out names the others

  [[nodiscard]] bool deleting() const { return !deletion_timestamp.empty(); }
  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

// Of any kind of object, also of a PartialObjectMetadata and of the items of a list. `kind` is for messages.
// Errors: kInvalid, naming kind, object and field.
[[nodiscard]] Expected<ObjectMeta> ParseObjectMeta(const nlohmann::json& object, std::string_view kind);

// metadata.annotations, for who does use them. Errors: as above.
[[nodiscard]] Expected<std::map<std::string, std::string>> ParseAnnotations(const nlohmann::json& object,
                                                                            std::string_view kind);

// metadata.name and metadata.labels of any object, for who looks at nothing else; empty where they are missing or of
// another type.
[[nodiscard]] std::string NameOf(const nlohmann::json& object);
[[nodiscard]] std::map<std::string, std::string> LabelsOf(const nlohmann::json& object);

// A merge patch that sets the finalizers and nothing else, if the object is still as it was read.
// Requires: before.resource_version is not empty.
[[nodiscard]] nlohmann::json FinalizersPatch(const ObjectMeta& before, const std::vector<std::string>& finalizers);

}  // namespace berth::crds
