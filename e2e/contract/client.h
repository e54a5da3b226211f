// SPDX-License-Identifier: Apache-2.0
// ContractClient: sends the requests of a contract case to an API server, and turns the answers into text.
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

// The answer of an API server.
struct Said {
  int status = 0;
  nlohmann::json body = {};

  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
  // "201", or for a refusal "409 Conflict" or "422 Invalid spec.cidr used": status, reason, and the refused fields.
  [[nodiscard]] std::string Text() const;
  // The resourceVersion of the object or list.
  [[nodiscard]] std::string version() const;
  [[nodiscard]] bool HasVersionOf(const nlohmann::json& object) const;
  [[nodiscard]] bool HasUidOf(const nlohmann::json& object) const;
  // The names of a list's items, without the case's space: "10.55.0.0-26 10.55.1.0-26".
  [[nodiscard]] std::string Names() const;
};

// A case's own part of an API server. Objects of other cases are not in the case's space.
class ContractClient {
 public:
  ContractClient(k8sclient::Api& api, std::string space) : api_(api), space_(std::move(space)) {}

  [[nodiscard]] const std::string& space() const { return space_; }
  // Objects that the API server accepts. Objects with different numbers have different names.
  [[nodiscard]] nlohmann::json Block(int number = 0) const;
  [[nodiscard]] nlohmann::json Pool() const;
  [[nodiscard]] nlohmann::json Allocation(const std::string& name_space = "default") const;
  // A node with two CPUs, and a pod that requests one address and that no scheduler handles.
  [[nodiscard]] nlohmann::json Node() const;
  [[nodiscard]] nlohmann::json Pod(int number = 0) const;

  Said Create(const nlohmann::json& object);
  // Creates the object and returns it as the server stored it.
  nlohmann::json Created(const nlohmann::json& object);
  // path: of an object, from PathOf, with or without a subresource.
  Said Patch(const std::string& path, const nlohmann::json& patch, std::string_view accept = k8sclient::kJson);
  Said Delete(const std::string& path, const nlohmann::json& preconditions = nlohmann::json::object());
  Said Get(const std::string& path, k8sclient::Query query = {}, std::string_view accept = k8sclient::kJson);
  // Like Get of a collection, but only objects in the case's space.
  Said List(const std::string& collection, k8sclient::Query query = {}, std::string_view accept = k8sclient::kJson);
  // Binds the pod to the node, with the pod's subresource `binding`.
  Said Bind(const nlohmann::json& pod, const std::string& node);
  Said Send(const k8sclient::Request& request);

  // Waits until the server's cache contains all writes up to this version.
  void AwaitCache(const std::string& version);

  // The first `count` events about the case's space; fewer if the server ends the watch before. Calls `meanwhile` after
  // the first event.
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
// "ADDED 10.55.0.0-26, DELETED 10.55.0.0-26"; for an ERROR the server's text.
[[nodiscard]] std::string TextOf(const std::vector<nlohmann::json>& events);
// Whether `version` is older than `than`.
[[nodiscard]] bool IsOlder(const std::string& version, const std::string& than);

}  // namespace berth::e2e
