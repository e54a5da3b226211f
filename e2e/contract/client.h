// SPDX-License-Identifier: Apache-2.0
// ContractClient: what a case of the contract asks of an API server, and how it tells what came back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "k8sclient/api.h"

namespace berth::e2e {

[[nodiscard]] inline std::string Blocks() { return std::string(crds::kBlocksPath); }
[[nodiscard]] inline std::string Allocations() { return std::string(crds::kAllocationsPath); }

// What an API server said.
struct Said {
  int status = 0;
  nlohmann::json body = {};

  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
  // "201", or of a refusal "409 Conflict", "422 Invalid spec.cidr used": status, reason, and the fields that it names.
  [[nodiscard]] std::string Text() const;
  // Of the object, or of the list.
  [[nodiscard]] std::string version() const;
  [[nodiscard]] bool HasVersionOf(const nlohmann::json& object) const;
  [[nodiscard]] bool HasUidOf(const nlohmann::json& object) const;
  // Of the items of a list, without the case's space: "10.55.0.0-26 10.55.1.0-26".
  [[nodiscard]] std::string Names() const;
};

// A case's own part of an API server: nothing of another case is in its space.
class ContractClient {
 public:
  ContractClient(k8sclient::Api& api, std::string space) : api_(api), space_(std::move(space)) {}

  [[nodiscard]] const std::string& space() const { return space_; }
  // Objects that are accepted as they are. The number tells one from another.
  [[nodiscard]] nlohmann::json Block(int number = 0) const;
  [[nodiscard]] nlohmann::json Pool() const;
  [[nodiscard]] nlohmann::json Allocation(const std::string& name_space = "default") const;
  // A node with two CPUs, and a pod that no scheduler looks at and that requests one address.
  [[nodiscard]] nlohmann::json Node() const;
  [[nodiscard]] nlohmann::json Pod(int number = 0) const;

  Said Create(const nlohmann::json& object);
  // The object as it was created.
  nlohmann::json Created(const nlohmann::json& object);
  // path: of an object, as PathOf gives it, or with a subresource.
  Said Patch(const std::string& path, const nlohmann::json& patch, std::string_view accept = k8sclient::kJson);
  Said Delete(const std::string& path, const nlohmann::json& preconditions = nlohmann::json::object());
  Said Get(const std::string& path, k8sclient::Query query = {}, std::string_view accept = k8sclient::kJson);
  // As Get of a collection, of what is in the case's space.
  Said List(const std::string& collection, k8sclient::Query query = {}, std::string_view accept = k8sclient::kJson);
  // The pod to the node, by the pod's subresource `binding`.
  Said Bind(const nlohmann::json& pod, const std::string& node);
  Said Send(const k8sclient::Request& request);

  // After this, what the server has at hand holds what was written until that version.
  void AwaitCache(const std::string& version);

  // The first `count` events about the case's space, or those that came until the server ended the watch. `meanwhile`
  // is done after the first one.
  std::vector<nlohmann::json> Watch(
      const std::string& collection, k8sclient::Query query, std::size_t count,
      std::string_view accept = k8sclient::kJson, const std::function<void()>& meanwhile = [] {});

 private:
  k8sclient::Api& api_;
  std::string space_;
};

[[nodiscard]] k8sclient::Query NotOlderThan(const std::string& version);
[[nodiscard]] std::string CollectionPath(const nlohmann::json& object);
[[nodiscard]] std::string PathOf(const nlohmann::json& object);
// "ADDED 10.55.0.0-26, DELETED 10.55.0.0-26"; of an ERROR what the server says.
[[nodiscard]] std::string TextOf(const std::vector<nlohmann::json>& events);
// "a < b": whether the versions of these objects grow.
[[nodiscard]] bool IsOlder(const std::string& version, const std::string& than);

}  // namespace berth::e2e
