// SPDX-License-Identifier: Apache-2.0
// ModelApi's writes and faults. Its reads are in model_reads.cc.
#include "k8sclient/testing/model_api.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/timestamp.h"
#include "k8sclient/testing/model_schema.h"

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

std::string Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return FormatTimestamp(std::chrono::floor<std::chrono::milliseconds>(now).count());
}

bool IsName(const std::string& name) {
  constexpr std::size_t kLongest = 253;
  const auto is_inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, is_inner) && name.front() != '-' &&
         name.front() != '.' && name.back() != '-' && name.back() != '.';
}

json Finalizers(const json& object) { return object["metadata"].value("finalizers", json::array()); }

bool IsGoing(const json& object) { return object["metadata"].contains("deletionTimestamp"); }

// Checks a new object's metadata before the server adds its part.
std::optional<Refused> BadMetadata(const json& metadata) {
  if (!IsName(metadata.value("name", ""))) return Invalid("metadata.name", "not a name");
  if (!metadata.value("resourceVersion", "").empty()) {
    return Refused{
        .status = 500, .reason = "", .message = "resourceVersion should not be set on objects to be created"};
  }
  for (const json& owner : metadata.value("ownerReferences", json::array())) {
    if (owner.value("uid", "").empty()) return Invalid("metadata.ownerReferences.uid", "must not be empty");
  }
  return {};
}

// Puts back the fields that only the server sets. If the request changes a field that it must not change, returns the
// refusal.
std::optional<Refused> KeepMetadata(const json& before, json& changed) {
  const json& old = before["metadata"];
  json& metadata = changed["metadata"];
  for (const char* const key : {"name", "namespace"}) {
    if (old.contains(key) && metadata.value(key, old[key]) != old[key]) {
      return BadRequest(std::string("the ") + key + " of the object does not match the one of the path");
    }
  }
  for (const char* const key : {"uid", "deletionTimestamp"}) {
    if (metadata.contains(key) && metadata[key] != old.value(key, json())) {
      return Invalid(std::string("metadata.") + key, "field is immutable");
    }
  }
  for (const char* const key : {"name",
                                "namespace",
                                "uid",
                                "resourceVersion",
                                "generation",
                                "creationTimestamp",
                                "deletionTimestamp",
                                "deletionGracePeriodSeconds"}) {
    metadata.erase(key);
    if (old.contains(key)) metadata[key] = old[key];
  }
  const json finalizers = Finalizers(before);
  const bool has_new = std::ranges::any_of(
      Finalizers(changed), [&](const json& one) { return std::ranges::find(finalizers, one) == finalizers.end(); });
  if (IsGoing(before) && has_new) return Invalid("metadata.finalizers", "no new one can be added");
  return {};
}

// True if a field differs outside metadata and, if status is a subresource, outside status.
bool IsSpecChanged(json before, json after, bool has_status) {
  for (json* const object : {&before, &after}) {
    object->erase("metadata");
    if (has_status) object->erase("status");
  }
  return before != after;
}

void RaiseGeneration(json& object) {
  json& metadata = object["metadata"];
  metadata["generation"] = metadata.value("generation", 1) + 1;
}

// True for a kind of Kubernetes whose status changes only by its subresource.
bool IsNodeOrPod(const Target& target) {
  return target.group.empty() && (target.plural == "nodes" || target.plural == "pods");
}

// Undoes changes outside the request's part: a write to the object's path cannot change status, and a write to the
// status path changes only status. A write to the status of a node or pod also changes metadata; a write to the status
// of a custom resource does not.
json WithoutTheOtherPart(const json& before, const json& changed, bool is_status, bool takes_metadata) {
  json object = is_status ? before : changed;
  const json& status = is_status ? changed : before;
  object.erase("status");
  if (status.contains("status")) object["status"] = status["status"];
  if (is_status && takes_metadata) object["metadata"] = changed["metadata"];
  return object;
}

Refused Conflict(const std::string& why) { return {.status = 409, .reason = "Conflict", .message = why}; }

Response Ok(const json& object) { return {.status = 200, .body = object.dump()}; }

}  // namespace

void ModelApi::SetFaults(Faults faults) {
  const std::scoped_lock lock(mutex_);
  faults_ = std::move(faults);
}

void ModelApi::ReleaseLateWrites() {
  const std::scoped_lock lock(mutex_);
  for (const Request& request : std::exchange(late_writes_, {})) static_cast<void>(Execute(request));
}

void ModelApi::HoldCache() {
  const std::scoped_lock lock(mutex_);
  held_cache_ = collections_;
}

void ModelApi::ReleaseCache() {
  const std::scoped_lock lock(mutex_);
  held_cache_.reset();
}

void ModelApi::DropField(const std::string& field) {
  const std::scoped_lock lock(mutex_);
  dropped_fields_.insert(field);
  for (auto& [collection, objects] : collections_) {
    for (auto& [name, object] : objects) object.erase(field);
  }
}

void ModelApi::Compact() {
  const std::scoped_lock lock(mutex_);
  oldest_version_ = version_;
}

void ModelApi::SetPageMax(std::size_t objects) {
  const std::scoped_lock lock(mutex_);
  page_max_ = objects;
}

std::shared_ptr<const ModelApi::Backup> ModelApi::TakeBackup() const {
  const std::scoped_lock lock(mutex_);
  return std::make_shared<const Backup>(Backup{.collections = collections_, .version = version_});
}

void ModelApi::Restore(const Backup& backup, std::uint64_t bump) {
  const std::scoped_lock lock(mutex_);
  collections_ = backup.collections;
  version_ = backup.version + bump;
  oldest_version_ = version_;
  events_.clear();
  ++restores_;
  if (restored_) restored_({.collections = collections_, .version = version_});
  happened_.notify_all();
}

const json& ModelApi::Store(const std::string& collection, json object, bool is_gone) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  ByName& objects = collections_[collection];
  json& place = objects[KeyOf(object)];
  json before = std::exchange(place, object);
  if (is_gone) objects.erase(KeyOf(object));
  if (stored_) stored_(collection, before, is_gone ? json() : object);
  events_.push_back({.version = version_,
                     .collection = collection,
                     .before = std::move(before),
                     .object = std::move(object),
                     .is_gone = is_gone});
  happened_.notify_all();
  return events_.back().object;
}

std::optional<std::string> ModelApi::Find(const Target& collection, const std::string& name) const {
  const auto objects = collections_.find(collection.collection);
  if (objects == collections_.end()) return {};
  const auto is_it = [&](const auto& one) {
    return one.first == name || (collection.name_space.empty() && one.first.ends_with("/" + name));
  };
  const std::string key = KeyOf(collection.name_space, name);
  const auto found =
      objects->second.contains(key) ? objects->second.find(key) : std::ranges::find_if(objects->second, is_it);
  return found == objects->second.end() ? std::nullopt : std::optional(found->first);
}

void ModelApi::Put(const std::string& collection, json object) {
  const std::scoped_lock lock(mutex_);
  const Target target = ParseTarget(collection);
  json& metadata = object["metadata"];
  if (!target.name_space.empty()) metadata["namespace"] = target.name_space;
  if (!metadata.contains("uid")) metadata["uid"] = "uid-" + std::to_string(++uids_);
  Store(target.collection, std::move(object));
}

void ModelApi::Remove(const std::string& collection, const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const Target target = ParseTarget(collection);
  if (const auto key = Find(target, name)) Store(target.collection, collections_[target.collection][*key], true);
}

std::vector<json> ModelApi::Objects(const std::string& collection) const {
  const std::scoped_lock lock(mutex_);
  const Target target = ParseTarget(collection);
  std::vector<json> objects;
  const auto found = collections_.find(target.collection);
  if (found == collections_.end()) return objects;
  for (const auto& [key, object] : found->second) {
    if (IsIn(target, object)) objects.push_back(object);
  }
  return objects;
}

bool ModelApi::Change(const std::string& collection, const std::string& name,
                      const std::function<void(json&)>& change) {
  const std::scoped_lock lock(mutex_);
  const Target target = ParseTarget(collection);
  const auto key = Find(target, name);
  if (!key) return false;
  json object = collections_[target.collection][*key];
  change(object);
  Store(target.collection, std::move(object));
  return true;
}

int ModelApi::CountOf(Method method) const {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(method);
  return found == counts_.end() ? 0 : found->second;
}

std::expected<json, Refused> ModelApi::Parsed(const Request& request) const {
  json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return std::unexpected(BadRequest("the body is no JSON object"));
  for (const std::string& field : dropped_fields_) body.erase(field);
  return body;
}

std::optional<Refused> ModelApi::Admit(const Target& target, const json& before, const json& after) const {
  if (!admission_) return std::nullopt;
  const auto why = admission_(target.collection, before, after);
  if (!why) return std::nullopt;
  return Refused{
      .status = 422,
      .reason = "Invalid",
      .message = "ValidatingAdmissionPolicy 'berth-blocks' with binding 'berth-blocks' denied request: " + *why};
}

ModelApi::Answer ModelApi::Create(const Request& request, const Target& target) {
  auto object = Parsed(request);
  if (!object) return std::unexpected(object.error());
  const ModelSchema& schema = ModelSchema::Of(target.collection);
  if (schema.is_known() && object->value("kind", "") != schema.kind())
    return std::unexpected(BadRequest("not the kind"));
  json& metadata = (*object)["metadata"];
  if (metadata.is_null()) metadata = json::object();
  if (metadata.value("namespace", target.name_space) != target.name_space) {
    return std::unexpected(BadRequest("the namespace of the object does not match the one of the path"));
  }
  if (const auto why = BadMetadata(metadata)) return std::unexpected(*why);
  if (!target.name_space.empty()) metadata["namespace"] = target.name_space;
  schema.Complete(*object);
  if (schema.has_status()) object->erase("status");
  // The server keeps the status of a new node, and replaces the status of a new pod.
  if (IsNodeOrPod(target) && target.plural == "pods") (*object)["status"] = {{"phase", "Pending"}};
  if (auto why = schema.Violation(*object)) return std::unexpected(*std::move(why));
  if (collections_[target.collection].contains(KeyOf(*object))) {
    return std::unexpected(Refused{.status = 409, .reason = "AlreadyExists", .message = "already exists"});
  }
  if (const auto why = Admit(target, nullptr, *object)) return std::unexpected(*why);
  metadata["uid"] = "uid-" + std::to_string(++uids_);
  metadata["creationTimestamp"] = Now();
  metadata.erase("deletionTimestamp");
  if (schema.is_known()) metadata["generation"] = 1;
  return Response{.status = 201, .body = Store(target.collection, *std::move(object)).dump()};
}

ModelApi::Answer ModelApi::Patch(const Request& request, const Target& target) {
  const auto patch = Parsed(request);
  if (!patch) return std::unexpected(patch.error());
  const auto& objects = collections_[target.collection];
  const auto found = objects.find(target.key());
  if (found == objects.end()) return std::unexpected(NotFound());
  const json& before = found->second;
  const std::string expected = patch->value("/metadata/resourceVersion"_json_pointer, std::string());
  if (!expected.empty() && before["metadata"]["resourceVersion"] != expected) {
    return std::unexpected(Conflict("the object has been modified"));
  }
  const ModelSchema& schema = ModelSchema::Of(target.collection);
  json changed = before;
  changed.merge_patch(*patch);
  schema.Complete(changed);
  if (schema.has_status() || IsNodeOrPod(target)) {
    changed = WithoutTheOtherPart(before, changed, !target.subresource.empty(), IsNodeOrPod(target));
  }
  if (auto why = KeepMetadata(before, changed)) return std::unexpected(*std::move(why));
  if (changed == before) {
    if (unchanged_) unchanged_(request);
    return Ok(AcceptedForm(request, changed));
  }
  if (auto why = schema.Violation(changed, before)) return std::unexpected(*std::move(why));
  if (const auto why = Admit(target, before, changed)) return std::unexpected(*why);
  if (schema.is_known() && IsSpecChanged(before, changed, schema.has_status())) RaiseGeneration(changed);
  const bool is_gone = IsGoing(changed) && Finalizers(changed).empty();
  return Ok(AcceptedForm(request, Store(target.collection, std::move(changed), is_gone)));
}

ModelApi::Answer ModelApi::Bind(const Request& request, const Target& target) {
  const auto binding = Parsed(request);
  if (!binding) return std::unexpected(binding.error());
  const auto& objects = collections_[target.collection];
  const auto found = objects.find(target.key());
  if (found == objects.end()) return std::unexpected(NotFound());
  json pod = found->second;
  const std::string uid = binding->value("/metadata/uid"_json_pointer, std::string());
  if (!uid.empty() && pod["metadata"]["uid"] != uid) return std::unexpected(Conflict("precondition failed: UID"));
  if (IsGoing(pod)) return std::unexpected(Conflict("the pod is being deleted, cannot be assigned to a host"));
  if (!pod.value("/spec/nodeName"_json_pointer, "").empty()) {
    return std::unexpected(Conflict("the pod is already assigned to a node"));
  }
  pod["spec"]["nodeName"] = binding->at("target").at("name");
  json& conditions = pod["status"]["conditions"];
  if (!conditions.is_array()) conditions = json::array();
  std::erase_if(conditions.get_ref<json::array_t&>(), [](const json& one) { return one["type"] == "PodScheduled"; });
  conditions.push_back({{"type", "PodScheduled"}, {"status", "True"}});
  Store(target.collection, std::move(pod));
  const json success = {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}, {"code", 201}};
  return Response{.status = 201, .body = success.dump()};
}

ModelApi::Answer ModelApi::Delete(const Request& request, const Target& target) {
  const auto& objects = collections_[target.collection];
  const auto found = objects.find(target.key());
  if (found == objects.end()) return std::unexpected(NotFound());
  json object = found->second;
  const json options = json::parse(request.body.empty() ? "{}" : request.body);
  const json preconditions = options.value("preconditions", json::object());
  for (const auto& [key, value] : preconditions.items()) {
    if (object["metadata"][key] != value) return std::unexpected(Conflict("precondition failed: " + key));
  }
  if (const auto why = Admit(target, object, nullptr)) return std::unexpected(*why);
  if (Finalizers(object).empty()) {
    const json details = {
        {"name", target.name}, {"group", target.group}, {"kind", target.plural}, {"uid", object["metadata"]["uid"]}};
    Store(target.collection, std::move(object), true);
    return Ok({{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}, {"details", details}});
  }
  if (IsGoing(object)) return Ok(object);
  object["metadata"]["deletionTimestamp"] = Now();
  object["metadata"]["deletionGracePeriodSeconds"] = 0;
  if (ModelSchema::Of(target.collection).is_known()) RaiseGeneration(object);
  return Ok(Store(target.collection, std::move(object)));
}

ModelApi::Answer ModelApi::Answered(const Request& request, const Target& target) {
  const ModelSchema& schema = ModelSchema::Of(target.collection);
  const bool is_ours = target.group == "ipam.berth.dev";
  if (IsNodeOrPod(target) && target.plural == "pods" && target.subresource == "binding") {
    if (request.method == Method::kPost) return Bind(request, target);
    return std::unexpected(
        Refused{.status = 405, .reason = "MethodNotAllowed", .message = "a binding is only created"});
  }
  const bool has_path =
      target.subresource.empty() || (target.subresource == "status" && (!is_ours || schema.has_status()));
  if (is_ours && !schema.is_known()) return Response{.status = 404, .body = "404 page not found\n"};
  if (!has_path) return std::unexpected(NotFound());
  switch (request.method) {
    case Method::kGet:
      return Read(request, target);
    case Method::kPost:
      return Create(request, target);
    case Method::kPatch:
      return Patch(request, target);
    case Method::kDelete:
      break;
  }
  return Delete(request, target);
}

Response ModelApi::Execute(const Request& request) {
  Target target = ParseTarget(request.path);
  Answer answer = Answered(request, target);
  if (answer) return *std::move(answer);
  if (request.method == Method::kPost) {
    const json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    target.name = body.is_object() ? body.value("/metadata/name"_json_pointer, std::string()) : "";
  }
  return ToResponse(answer.error(), target);
}

Expected<Response> ModelApi::Call(const Request& request, const CallOptions& /*options*/) {
  Faults faults;
  {
    const std::scoped_lock lock(mutex_);
    ++counts_[request.method];
    faults = faults_;
  }
  const ApiFault fault = faults ? faults(request) : ApiFault::kNone;
  const std::scoped_lock lock(mutex_);
  switch (fault) {
    case ApiFault::kNone:
      return Execute(request);
    case ApiFault::kUnavailable:
      return Fail(ErrorCode::kUnavailable, "the API server is away");
    case ApiFault::kInvalid:
      return ToResponse({.status = 422, .reason = "Invalid", .message = "a rule refuses it"},
                        ParseTarget(request.path));
    case ApiFault::kForbidden:
      return ToResponse({.status = 403, .reason = "Forbidden", .message = "cannot patch resource"},
                        ParseTarget(request.path));
    case ApiFault::kLostAfterCommit:
      static_cast<void>(Execute(request));
      break;
    case ApiFault::kLateCommit:
      late_writes_.push_back(request);
      break;
  }
  return Fail(IsWrite(request.method) ? ErrorCode::kUnknownOutcome : ErrorCode::kUnavailable, "the answer was lost");
}

}  // namespace berth::k8sclient::testing
