// SPDX-License-Identifier: Apache-2.0
// The model's verbs, watches and faults.
#include "k8sclient/testing/model_api.h"

#include <algorithm>
#include <utility>

#include "k8sclient/testing/model_schema.h"

namespace berth::k8sclient::testing {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using nlohmann::json;

namespace {

Response Refusal(int code, const std::string& reason, const std::string& message, const std::string& name) {
  const json status = {{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"status", "Failure"},
                       {"code", code},
                       {"reason", reason},
                       {"message", message},
                       {"details", {{"name", name}, {"kind", "ipblocks"}}}};
  return {.status = code, .body = status.dump()};
}

std::string QueryValue(const Request& request, const std::string& key) {
  for (const auto& [name, value] : request.query) {
    if (name == key) return value;
  }
  return {};
}

// "metadata.name=x" or "spec.node=": one term.
bool Selected(const json& object, const std::string& selector) {
  if (selector.empty()) return true;
  const std::size_t equals = selector.find('=');
  const std::size_t dot = selector.find('.');
  const auto part = object.find(selector.substr(0, dot));
  if (part == object.end()) return selector.size() == equals + 1;
  return part->value(selector.substr(dot + 1, equals - dot - 1), std::string()) == selector.substr(equals + 1);
}

// ".../ipblocks/name" is an object, ".../ipblocks" a collection. Good for what the list names.
std::pair<std::string, std::string> SplitPath(const std::string& path) {
  static const std::vector<std::string> kCollections = {"/ippools",
                                                        "/ipblocks",
                                                        "/ipspaces",
                                                        "/ipreservations",
                                                        "/ipallocations",
                                                        "/nodes",
                                                        "/pods",
                                                        "/events",
                                                        "/leases",
                                                        "/namespaces"};
  // Namespaces are the last: they stand before what is in them.
  for (const std::string& collection : kCollections) {
    if (path.ends_with(collection)) return {path, ""};
    const std::size_t at = path.find(collection + "/");
    if (at == std::string::npos) continue;
    const std::size_t name = at + collection.size() + 1;
    return {path.substr(0, name - 1), path.substr(name, path.find('/', name) - name)};
  }
  return {path, ""};
}

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

std::shared_ptr<const ModelApi::Backup> ModelApi::TakeBackup() const {
  const std::scoped_lock lock(mutex_);
  return std::make_shared<const Backup>(Backup{.collections = collections_, .version = version_});
}

void ModelApi::Restore(const Backup& backup) {
  const std::scoped_lock lock(mutex_);
  collections_ = backup.collections;
  version_ = backup.version;
  events_.clear();
  ++restores_;
  happened_.notify_all();
}

void ModelApi::Store(const std::string& collection, const std::string& type, json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  const std::string name = object["metadata"]["name"].get<std::string>();
  if (stored_) {
    const auto before = collections_[collection].find(name);
    stored_(collection,
            before == collections_[collection].end() ? json() : before->second,
            type == "DELETED" ? json() : object);
  }
  if (type == "DELETED") {
    collections_[collection].erase(name);
  } else {
    collections_[collection][name] = object;
  }
  events_.push_back({.version = version_, .collection = collection, .type = type, .object = std::move(object)});
  happened_.notify_all();
}

void ModelApi::Put(const std::string& collection, json object) {
  const std::scoped_lock lock(mutex_);
  const std::string name = object["metadata"]["name"].get<std::string>();
  const bool exists = collections_[collection].contains(name);
  if (!object["metadata"].contains("uid")) object["metadata"]["uid"] = "uid-" + std::to_string(++uids_);
  Store(collection, exists ? "MODIFIED" : "ADDED", std::move(object));
}

std::vector<json> ModelApi::Objects(const std::string& collection) const {
  const std::scoped_lock lock(mutex_);
  std::vector<json> objects;
  const auto found = collections_.find(collection);
  if (found == collections_.end()) return objects;
  for (const auto& [name, object] : found->second) objects.push_back(object);
  return objects;
}

bool ModelApi::Change(const std::string& collection, const std::string& name,
                      const std::function<void(json&)>& change) {
  const std::scoped_lock lock(mutex_);
  auto& objects = collections_[collection];
  const auto found = objects.find(name);
  if (found == objects.end()) return false;
  json object = found->second;
  change(object);
  Store(collection, "MODIFIED", std::move(object));
  return true;
}

int ModelApi::CountOf(Method method) const {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(method);
  return found == counts_.end() ? 0 : found->second;
}

Response ModelApi::Create(const std::string& collection, const Request& request) {
  json object = json::parse(request.body);
  const std::string name = object["metadata"]["name"].get<std::string>();
  if (collections_[collection].contains(name)) return Refusal(409, "AlreadyExists", name + " already exists", name);
  if (const auto why = ModelSchema::Of(collection).Violation(object); !why.empty()) {
    return Refusal(422, "Invalid", name + " is invalid: " + why, name);
  }
  object["metadata"]["uid"] = "uid-" + std::to_string(++uids_);
  Store(collection, "ADDED", std::move(object));
  return {.status = 201, .body = collections_[collection][name].dump()};
}

Response ModelApi::Patch(const std::string& collection, const std::string& name, const Request& request) {
  auto& objects = collections_[collection];
  const auto found = objects.find(name);
  if (found == objects.end()) return Refusal(404, "NotFound", name + " not found", name);
  const json patch = json::parse(request.body);
  const std::string expected = patch.value("/metadata/resourceVersion"_json_pointer, std::string());
  if (!expected.empty() && found->second["metadata"]["resourceVersion"] != expected) {
    return Refusal(409, "Conflict", name + " has been modified", name);
  }
  json changed = found->second;
  changed.merge_patch(patch);
  changed["metadata"]["resourceVersion"] = found->second["metadata"]["resourceVersion"];
  if (changed == found->second) return {.status = 200, .body = changed.dump()};
  if (const auto why = ModelSchema::Of(collection).Violation(changed); !why.empty()) {
    return Refusal(422, "Invalid", name + " is invalid: " + why, name);
  }
  const json& metadata = changed["metadata"];
  const bool is_gone = metadata.contains("deletionTimestamp") && metadata.value("finalizers", json::array()).empty();
  Store(collection, is_gone ? "DELETED" : "MODIFIED", changed);
  return {.status = 200, .body = events_.back().object.dump()};
}

Response ModelApi::Delete(const std::string& collection, const std::string& name, const Request& request) {
  auto& objects = collections_[collection];
  const auto found = objects.find(name);
  if (found == objects.end()) return Refusal(404, "NotFound", name + " not found", name);
  json object = found->second;
  const json options = json::parse(request.body.empty() ? "{}" : request.body);
  const json preconditions = options.value("preconditions", json::object());
  for (const auto& [key, value] : preconditions.items()) {
    if (object["metadata"][key] != value) return Refusal(409, "Conflict", "precondition failed: " + key, name);
  }
  if (object["metadata"].contains("deletionTimestamp")) return {.status = 200, .body = object.dump()};
  const bool has_finalizers = !object["metadata"].value("finalizers", json::array()).empty();
  object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  Store(collection, has_finalizers ? "MODIFIED" : "DELETED", std::move(object));
  return {.status = 200, .body = events_.back().object.dump()};
}

Response ModelApi::List(const ByName& objects, const Request& request) const {
  json items = json::array();
  for (const auto& [name, object] : objects) {
    if (Selected(object, QueryValue(request, "fieldSelector"))) items.push_back(object);
  }
  const json list = {{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", std::move(items)}};
  return {.status = 200, .body = list.dump()};
}

Response ModelApi::Read(const Collections& collections, const Request& request) const {
  const auto [collection, name] = SplitPath(request.path);
  const auto found = collections.find(collection);
  static const ByName kNone;
  const ByName& objects = found == collections.end() ? kNone : found->second;
  if (name.empty()) return List(objects, request);
  const auto object = objects.find(name);
  if (object == objects.end()) return Refusal(404, "NotFound", name + " not found", name);
  return {.status = 200, .body = object->second.dump()};
}

Response ModelApi::Execute(Request request) {
  const auto [collection, name] = SplitPath(request.path);
  if (json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false); body.is_object()) {
    for (const std::string& field : dropped_fields_) body.erase(field);
    request.body = body.dump();
  }
  switch (request.method) {
    case Method::kPost:
      return Create(collection, request);
    case Method::kPatch:
      return Patch(collection, name, request);
    case Method::kDelete:
      return Delete(collection, name, request);
    default:
      break;
  }
  const bool is_cached = held_cache_ && QueryValue(request, "resourceVersion") == "0";
  return Read(is_cached ? *held_cache_ : collections_, request);
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
      return Refusal(422, "Invalid", "a rule refuses it", "");
    case ApiFault::kForbidden:
      return Refusal(403, "Forbidden", "cannot patch resource", "");
    case ApiFault::kLostAfterCommit:
      static_cast<void>(Execute(request));
      break;
    case ApiFault::kLateCommit:
      late_writes_.push_back(request);
      break;
  }
  return Fail(IsWrite(request.method) ? ErrorCode::kUnknownOutcome : ErrorCode::kUnavailable, "the answer was lost");
}

Expected<Response> ModelApi::Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) {
  std::uint64_t seen = std::stoull("0" + QueryValue(request, "resourceVersion"));
  const std::string selector = QueryValue(request, "fieldSelector");
  const std::stop_callback wake(options.stop, [this] {
    const std::scoped_lock lock(mutex_);
    happened_.notify_all();
  });
  std::uint64_t restores = 0;
  {
    const std::scoped_lock lock(mutex_);
    restores = restores_;
    if (seen > version_) return Refusal(410, "Expired", "that version is yet to come", "");
  }
  while (true) {
    std::vector<Event> news;
    {
      std::unique_lock lock(mutex_);
      happened_.wait(lock, [&] {
        return options.stop.stop_requested() || restores_ > restores ||
               (!events_.empty() && events_.back().version > seen);
      });
      if (options.stop.stop_requested()) return Fail(ErrorCode::kTimeout, "stopped");
      if (restores_ > restores) return Response{.status = 200};
      for (auto event = std::ranges::upper_bound(events_, seen, {}, &Event::version); event != events_.end(); ++event) {
        if (event->collection == request.path && Selected(event->object, selector)) news.push_back(*event);
      }
      seen = events_.back().version;
    }
    for (const Event& event : news) {
      if (!sink(json{{"type", event.type}, {"object", event.object}}.dump())) return Response{.status = 200};
    }
  }
}

}  // namespace berth::k8sclient::testing
