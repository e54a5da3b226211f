// SPDX-License-Identifier: Apache-2.0
// Reads metadata from JSON.
#include "crds/object_meta.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "crds/meta_reader.h"
#include "crds/names.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

constexpr std::size_t kTokenLengthMax = 128;  // uid, resourceVersion, timestamps

const nlohmann::json* FindInMetadata(const nlohmann::json& object, const char* key) {
  // If `object` is not a JSON object, find() returns end().
  const auto metadata = object.find("metadata");
  if (metadata == object.end()) return nullptr;
  const auto found = metadata->find(key);
  return found == metadata->end() ? nullptr : &*found;
}

}  // namespace

ObjectMeta ReadMeta(const FieldReader& document) {
  const FieldReader fields = document.Object("metadata");
  ObjectMeta meta;
  meta.name = fields.String("name", kNameLengthMax);
  meta.name_space = fields.String("namespace", kNameLengthMax);
  meta.uid = fields.String("uid", kTokenLengthMax);
  meta.resource_version = fields.String("resourceVersion", kTokenLengthMax);
  meta.generation = fields.Integer("generation", 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
  meta.deletion_timestamp = fields.String("deletionTimestamp", kTokenLengthMax);
  // No limit here: the API server limits an object's size, but not the number and length of its finalizers.
  meta.finalizers = fields.Strings("finalizers", kUnbounded, kUnbounded);
  if (meta.name.empty()) fields.Fail("name", "is missing");
  return meta;
}

Problem ProblemOf(std::string_view kind, const nlohmann::json& object) {
  Problem problem{.object = std::string(kind)};
  const nlohmann::json* const name = FindInMetadata(object, "name");
  if (name != nullptr && name->is_string()) {
    problem.object += ' ' + name->get_ref<const std::string&>().substr(0, kNameLengthMax);
  }
  return problem;
}

Expected<ObjectMeta> ParseObjectMeta(const nlohmann::json& object, std::string_view kind) {
  Problem problem = ProblemOf(kind, object);
  ObjectMeta meta = ReadMeta(FieldReader(object, problem));
  if (problem.error) return std::unexpected(*problem.error);
  return meta;
}

Expected<std::map<std::string, std::string>> ParseAnnotations(const nlohmann::json& object, std::string_view kind) {
  Problem problem = ProblemOf(kind, object);
  const FieldReader document(object, problem);
  const FieldReader metadata = document.Object("metadata");
  auto annotations = metadata.StringMap("annotations", kUnbounded, kUnbounded);
  if (problem.error) return std::unexpected(*problem.error);
  return annotations;
}

std::string NameOf(const nlohmann::json& object) {
  const nlohmann::json* const name = FindInMetadata(object, "name");
  return name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
}

std::map<std::string, std::string> LabelsOf(const nlohmann::json& object) {
  std::map<std::string, std::string> labels;
  const nlohmann::json* const found = FindInMetadata(object, "labels");
  if (found == nullptr || !found->is_object()) return labels;
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) labels[key] = value.get<std::string>();
  }
  return labels;
}

nlohmann::json FinalizersPatch(const ObjectMeta& before, const std::vector<std::string>& finalizers) {
  BERTH_CHECK(!before.resource_version.empty());
  return {{"metadata", {{"resourceVersion", before.resource_version}, {"finalizers", finalizers}}}};
}

}  // namespace berth::crds
